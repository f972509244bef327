"""Every projection of families whose modules have names of their own is found."""

from __future__ import annotations

import pytest

from memlint.architectures import UnsupportedConfig, from_config, resolve
from memlint.architectures.catalog import configurations
from memlint.memory.estimate import estimate
from tests.memory.runs import LORA, run

FAMILIES = {str(config["model_type"]): config for config in configurations()}
UNFOUND = "projection is not known"


@pytest.mark.parametrize("method", [{}, LORA], ids=["full", "lora"])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_listed_model_lacks_no_projection(family: str, method: dict[str, object]) -> None:
    try:
        architecture = from_config(FAMILIES[family])
    except UnsupportedConfig:
        return
    found = estimate(run(model__architecture=architecture, **method))
    assert not any(UNFOUND in field.reason for field in found.unknown)


def test_a_router_named_gate_is_no_gate_projection() -> None:
    """DeepSeek-MoE's `mlp.gate` beside its experts' `gate_proj`, in half precision under fp32 activations."""
    changes = {"precision__autocast": True, "precision__trainable_dtype": "float32", "stack__transformers": (4, 57)}
    base = run(model__architecture=resolve("deepseek-ai/deepseek-moe-16b-base").architecture, **LORA, **changes)
    quantization = base.model.quantization._replace(method="bnb", bits=4, kind="nf4", upcast_rest_to_fp32=True)
    found = estimate(base._replace(model=base.model._replace(quantization=quantization)))
    assert found.allocated_bytes, found.unknown
