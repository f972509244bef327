"""Every projection of families whose modules have names of their own is found."""

from __future__ import annotations

import pytest

from memlint.architectures import resolve
from memlint.memory.estimate import estimate
from tests.memory.runs import LORA, run

REMOTE = (
    "Qwen/Qwen-7B",
    "THUDM/chatglm3-6b",
    "THUDM/glm-4-9b-chat",
    "baichuan-inc/Baichuan2-7B-Chat",
    "baichuan-inc/Baichuan2-13B-Chat",
    "internlm/internlm2-chat-7b",
)


@pytest.mark.parametrize("name", REMOTE)
@pytest.mark.parametrize("method", [{}, LORA], ids=["full", "lora"])
def test_a_model_with_modules_of_its_own_has_a_figure(name: str, method: dict[str, object]) -> None:
    found = estimate(run(model__architecture=resolve(name).architecture, **method))
    assert found.allocated_bytes, found.unknown


def test_a_router_named_gate_is_no_gate_projection() -> None:
    """DeepSeek-MoE's `mlp.gate` beside its experts' `gate_proj`, in half precision under fp32 activations."""
    changes = {"precision__autocast": True, "precision__trainable_dtype": "float32", "stack__transformers": (4, 57)}
    base = run(model__architecture=resolve("deepseek-ai/deepseek-moe-16b-base").architecture, **LORA, **changes)
    quantization = base.model.quantization._replace(method="bnb", bits=4, kind="nf4", upcast_rest_to_fp32=True)
    found = estimate(base._replace(model=base.model._replace(quantization=quantization)))
    assert found.allocated_bytes, found.unknown
