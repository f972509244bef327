"""Every tensor of every family, compared by name and shape with the classes of transformers."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures import from_config
from memlint.architectures.builder import families
from memlint.architectures.model import parameters
from tests.architectures import referee
from tests.architectures.small import NO_DEFAULTS, VARIANTS

SHARED = sorted(
    family
    for family in families()
    if family in referee.CLASSES and family not in ("qwen2_5_omni", "qwen3_omni_moe", "mimo")
)
CASES = [(family, {}) for family in SHARED if family not in NO_DEFAULTS]
CASES += [(family, values) for family, variants in VARIANTS.items() for values in variants]


@pytest.mark.parametrize(("family", "values"), CASES, ids=[f"{family}-{n}" for n, (family, _) in enumerate(CASES)])
def test_tensors_are_those_of_transformers(family: str, values: dict[str, Any]) -> None:
    model = referee.build(family, values)
    architecture = from_config({"model_type": family, **values})
    real, ours = referee.tensors(model), referee.listed(architecture, model)
    assert {name: shape for name, shape in ours.items() if real.get(name) != shape} == {}
    assert {name: shape for name, shape in real.items() if ours.get(name) != shape} == {}
    assert parameters(architecture) == sum(parameter.numel() for parameter in model.parameters())


def test_every_family_with_a_class_is_compared() -> None:
    assert set(SHARED) <= {family for family, _ in CASES}
