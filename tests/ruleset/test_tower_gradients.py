"""CKP004 beside the real classes: which towers ask for a gradient, and which hand their layers what asks for it."""

from __future__ import annotations

import inspect

import pytest

from memlint.architectures import from_config
from memlint.architectures.resolve import resolve
from memlint.expressions.derived_facts import MODEL
from memlint.expressions.facts import Facts
from memlint.run import UNKNOWN, Method, Model, Run, replace
from tests.comparisons.vision_inputs import MODELS

transformers = pytest.importorskip("transformers")
UNHOOKED = ("qwen3_vl", "glm4v", "gemma4")
HOOKED = ("qwen2_vl", "qwen2_5_vl", "llava", "mistral3", "internvl", "gemma3", "paligemma", "llama4")


@pytest.mark.parametrize("family", [*UNHOOKED, *HOOKED, "idefics3", "smolvlm"])
def test_a_tower_asks_for_gradients_where_its_class_names_its_embedding(family: str) -> None:
    from memlint.simulation.build import DTYPES, model_on_meta

    config, _ = MODELS[family]
    class_name = transformers.CONFIG_MAPPING[family].__name__
    model = model_on_meta(class_name, config, "eager", DTYPES["bfloat16"])
    model.enable_input_require_grads()
    prefix = from_config(config).towers[0].tower_prefix
    hooked = [name for name, module in model.named_modules() if module._forward_hooks and name.startswith(prefix)]
    assert bool(hooked) is (family not in UNHOOKED)


def test_llama_4_hands_its_layers_their_input_by_name() -> None:
    from transformers.models.llama4.modeling_llama4 import Llama4VisionEncoder

    assert "hidden_state=hidden_states" in inspect.getsource(Llama4VisionEncoder.forward)


def test_adapters_in_a_tower_are_counted_where_nothing_freezes_it() -> None:
    model = Model(architecture=resolve("Qwen/Qwen2.5-VL-7B-Instruct").architecture)
    method = Method(kind="lora", targets=("all-linear",), freeze_vision_tower=False)
    run = Run("f", "p", model=model, method=method)
    read = MODEL["model.adapted_in_tower"]
    assert read(Facts(run)) == 5  # qkv, proj, gate, up, down
    assert read(Facts(replace(run, {"method.targets": ("q_proj", "v_proj")}))) == 0
    assert read(Facts(replace(run, {"method.freeze_vision_tower": True}))) == 0
    assert read(Facts(replace(run, {"method.kind": "full"}))) == 0
    assert read(Facts(replace(run, {"method.targets": UNKNOWN}))) is UNKNOWN
