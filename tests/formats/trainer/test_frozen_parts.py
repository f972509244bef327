"""What a Python script freezes, beside the same statements run on a small model of transformers."""

from __future__ import annotations

import re
from typing import Any

import pytest

import memlint
from memlint.architectures import from_config
from memlint.formats.trainer.frozen_parts import trainable_patterns, trained_parts
from memlint.formats.trainer.python.frozen import ONE_BY_ONE
from memlint.formats.trainer.python.python_run import PythonRun
from memlint.formats.trainer.python.runs import runs_of
from memlint.memory import estimate
from memlint.simulation import simulate
from memlint.source.python.reader import ScriptFiles
from memlint.source.python.text import SourceText, parse
from memlint.source.python.values import Undetermined
from tests.architectures.small import VARIANTS
from tests.memory.runs import TINY, run

FREEZE_ALL = "for p in model.parameters():\n    p.requires_grad = False\n"
LAST_LAYERS = (
    "for layer in model.model.layers[-2:]:\n    for p in layer.parameters():\n        p.requires_grad = True\n"
)
CASES = {
    "last layers and head": FREEZE_ALL + LAST_LAYERS + "model.lm_head.requires_grad_(True)\n",
    "first layers": "for layer in model.model.layers[:3]:\n    layer.requires_grad_(False)\n",
    "embedding": "for p in model.model.embed_tokens.parameters():\n    p.requires_grad = False\n",
    "one matrix": "model.lm_head.weight.requires_grad = False\n",
    "by method": "model.get_input_embeddings().requires_grad_(False)\n",
    "one layer": "model.requires_grad_(False)\nmodel.model.layers[-1].requires_grad_()\n",
    "attention of each layer": FREEZE_ALL
    + "for layer in model.model.layers:\n    for p in layer.self_attn.parameters():\n        p.requires_grad = True\n",
    "norm": FREEZE_ALL + "for p in model.model.norm.parameters():\n    p.requires_grad = True\n",
    "decoder, then a part again": "model.model.requires_grad_(False)\n" + LAST_LAYERS,
}
UNKNOWN_PARTS = {
    "by name": "for n, p in model.named_parameters():\n    if 'mlp' in n:\n        p.requires_grad = False\n",
    "by index": "for i, layer in enumerate(model.model.layers):\n    if i < 2:\n        layer.requires_grad_(False)\n",
    "by module": FREEZE_ALL + "for n, m in model.named_modules():\n    m.requires_grad_(True)\n",
    "by condition": "if args.freeze:\n    model.lm_head.requires_grad_(False)\n",
    "a method of the model": "model.freeze_feature_encoder()\n",
}
SCRIPT = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
args = torch.load("args")
model = AutoModelForCausalLM.from_pretrained("own/model", torch_dtype=torch.bfloat16)
teacher = AutoModelForCausalLM.from_pretrained("own/teacher", torch_dtype=torch.bfloat16)
for p in teacher.parameters():
    p.requires_grad = False
{freezing}Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=2)).train()
"""


def script_run(freezing: str) -> PythonRun:
    script = parse("train.py", SCRIPT.format(freezing=freezing))
    assert isinstance(script, SourceText), script
    (found,) = runs_of(script, ScriptFiles(lambda name: None, lambda name: None))
    return found


def real_names(freezing: str, config: dict[str, Any]) -> set[str]:
    from transformers import AutoConfig, AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    exec(freezing, {"model": model})
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_same_parameters_train_as_in_the_real_model(case: str, tied: bool) -> None:
    config = {**TINY, "tie_word_embeddings": tied}
    parts = script_run(CASES[case]).program.frozen
    patterns = trainable_patterns(parts, from_config(config))
    assert patterns is not None
    names = real_names("", config)
    assert {name for name in names if any(re.search(one, name) for one in patterns)} == real_names(CASES[case], config)


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_beside_the_real_code(case: str, checkpointing: str) -> None:
    patterns = trainable_patterns(script_run(CASES[case]).program.frozen, from_config(TINY))
    changes: dict[str, Any] = {"method__kind": "freeze", "method__trainable_patterns": patterns}
    found = run(**changes, checkpointing__mode=checkpointing, checkpointing__reentrant=False)
    real, phases = simulate(found, TINY), {phase.name: phase.allocated_bytes for phase in estimate(found).phases}
    assert phases["forward"] == pytest.approx(real.forward, rel=0.01)
    assert phases["backward"] == pytest.approx(real.backward, rel=0.01)


@pytest.mark.parametrize("case", UNKNOWN_PARTS)
def test_what_cannot_be_told(case: str) -> None:
    found = script_run(UNKNOWN_PARTS[case])
    reason = found.keys.get("use_peft")
    assert isinstance(reason, Undetermined) and reason.reason == ONE_BY_ONE
    assert found.program.frozen == ()


def test_nothing_is_frozen() -> None:
    found = script_run("model.requires_grad_(True)\n")
    assert (found.program.frozen, "use_peft" in found.keys) == ((), False)


@pytest.mark.parametrize("parts", [(("", False),), (("model.blocks[:2]", False),), (("model.visual", False),)])
def test_parts_that_the_model_does_not_have(parts: tuple[tuple[str, bool], ...]) -> None:
    assert trainable_patterns(parts, from_config(TINY)) is None


# Encoder and decoder of models that have both, as (model_type, what the script does).
SIDES = {
    "encoder of T5": ("t5", "for p in model.encoder.parameters():\n    p.requires_grad = False\n"),
    "decoder of T5": ("t5", "model.get_decoder().requires_grad_(False)\n"),
    "head of BART alone": ("bart", FREEZE_ALL + "model.model.decoder.requires_grad_(True)\n"),
    "encoder of BART": ("bart", "model.get_encoder().requires_grad_(False)\n"),
    "encoder of Whisper": ("whisper", "model.freeze_encoder()\n"),
    "decoder of Whisper": ("whisper", "model.model.decoder.requires_grad_(False)\n"),
}


@pytest.mark.parametrize("case", SIDES)
def test_one_side_of_an_encoder_decoder(case: str) -> None:
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq

    family, freezing = SIDES[case]
    config = {"model_type": family, **VARIANTS[family][0]}
    loader: Any = AutoModelForSpeechSeq2Seq if family == "whisper" else AutoModelForSeq2SeqLM
    model = loader.from_config(AutoConfig.for_model(**config))
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    exec(freezing, {"model": model})
    architecture = from_config(config)
    patterns = trainable_patterns(script_run(freezing).program.frozen, architecture)
    assert patterns is not None
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name in names if any(re.search(one, name) for one in patterns)} == trained
    found = run(
        model__architecture=architecture,
        method__kind="freeze",
        method__trainable_patterns=patterns,
        attention__implementation="sdpa",
    )
    real = simulate(found, config)
    phases = {phase.name: phase.allocated_bytes for phase in estimate(found).phases}
    # The first of few layers of a frozen decoder counts as if its attention to itself needed a gradient.
    close = 0.11 if case.startswith("decoder") else 0.05
    assert phases["forward"] == pytest.approx(real.forward, rel=close)
    assert phases["backward"] == pytest.approx(real.backward, rel=close)


# What Qwen's own script does (QwenLM/Qwen3-VL qwen-vl-finetune/qwenvl/train/train_qwen.py, set_model), and others.
FREEZE_HEAD = "model.lm_head.requires_grad = False\n"  # of a module: no parameter reads it
PARTS_THAT_SEE = {
    "tower": "for n, p in model.model.visual.named_parameters():\n    p.requires_grad = False\n",
    "tower, not its projector": "for n, p in model.model.visual.named_parameters():\n    p.requires_grad = False\n"
    "for n, p in model.model.visual.merger.named_parameters():\n    p.requires_grad = True\n",
    "projector": "model.model.visual.merger.requires_grad_(False)\n",
    "head alone is named": FREEZE_HEAD,
    "language model": "model.model.language_model.requires_grad_(False)\nmodel.lm_head.requires_grad_(False)\n",
    "all but the projector": FREEZE_ALL + "model.model.visual.merger.requires_grad_(True)\n",
    "a hook": "def hook(module, input, output):\n    output.requires_grad_(True)\n"
    "model.get_input_embeddings().register_forward_hook(hook)\nmodel.model.visual.requires_grad_(False)\n",
}


def real_parts(freezing: str, config: dict[str, Any]) -> tuple[bool, bool, bool, bool]:
    from transformers import AutoConfig, AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(**config))
    exec(freezing, {"model": model})
    projector = model.model.visual.merger
    inside = {id(one) for one in projector.parameters()}
    tower = [one for one in model.model.visual.parameters() if id(one) not in inside]
    groups = (tower, projector.parameters(), model.model.language_model.parameters(), model.lm_head.parameters())
    trained = [{one.requires_grad for one in group} for group in groups]
    assert all(len(one) == 1 for one in trained), "a part trains in part"
    return tuple(one.pop() for one in trained)


@pytest.mark.parametrize("case", PARTS_THAT_SEE)
def test_the_parts_of_an_image_text_model(case: str) -> None:
    config = {**VARIANTS["qwen2_5_vl"][0], "model_type": "qwen2_5_vl", "tie_word_embeddings": False}
    parts = script_run(PARTS_THAT_SEE[case]).program.frozen
    assert trained_parts(parts, from_config(config)) == real_parts(PARTS_THAT_SEE[case], config)


@pytest.mark.parametrize(
    ("family", "parts", "expected"),
    [
        ("llava", (("model.vision_tower", False),), (False, True, True, True)),
        ("internvl", (("vision_model", False), ("mlp1", False)), (False, False, True, True)),
        ("qwen2_5_vl", (("visual", False),), (False, False, True, True)),
        ("qwen2_5_vl", (("model.visual.blocks[:2]", False),), None),
        ("qwen2_5_vl", (("", False),), None),
    ],
)
def test_names_of_parts(family: str, parts: tuple[tuple[str, bool], ...], expected: object) -> None:
    config = {**VARIANTS[family][0], "model_type": family, "tie_word_embeddings": False}
    assert trained_parts(parts, from_config(config)) == expected


BESIDE_ADAPTER = """\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
{before}
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj"]))
{after}
SFTTrainer(model=model, args=SFTConfig("out", per_device_train_batch_size=1, max_length=512)).train()
"""
_LOOP = "for name, one in model.named_parameters():\n    if '{}' in name:\n        one.requires_grad = True"


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [
        ("", "", True),
        ("model.lm_head.requires_grad_(True)", "", True),  # get_peft_model freezes it
        ("", "model.lm_head.requires_grad_(True)", False),
        ("", _LOOP.format("embed"), False),
        ("", _LOOP.format("lora_"), True),
        ("", "model.lm_head.requires_grad_(False)", True),
    ],
)
def test_weights_that_train_beside_an_adapter(before: str, after: str, is_known: bool) -> None:
    found = memlint.estimate(BESIDE_ADAPTER.format(before=before, after=after), path="train.py", gpu="A100-80GB")
    assert (found.run.method.kind == "lora") == is_known
    assert (found.verdict == "fits") == is_known
