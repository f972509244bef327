"""Reference and reward models that are not the policy: counted by their own architecture, dtype and placement."""

from __future__ import annotations

import pytest

from memlint.architectures import from_config
from memlint.architectures.model import parameters
from memlint.memory import estimate
from memlint.run import UNKNOWN, Fsdp, Model, Parallelism, Quantization, Run, Zero, replace
from tests.memory.runs import LORA, TINY, run

LARGE = {**TINY, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8, "vocab_size": 4096}
DPO: dict[str, object] = {**LORA, "method__stage": "dpo", "sequence__length": 256}


def reference(**changes: object) -> Model:
    return Model("large", from_config(LARGE), "bfloat16")._replace(**changes)


def named(model: Model, **changes: object) -> Run:
    return run(**{**DPO, "method__reference_model": "named", "method__extra_models": (model,), **changes})


def others(found: Run) -> int:
    return estimate(found).details["other_models_bytes"]


NUMBERS = parameters(from_config(LARGE))


def test_a_named_reference_is_as_large_as_its_own_architecture() -> None:
    assert others(named(reference())) == pytest.approx(2 * NUMBERS, rel=0.01)
    assert others(named(reference(weights_dtype="float32"))) == pytest.approx(4 * NUMBERS, rel=0.01)
    assert others(run(**{**DPO, "method__reference_model": "shared"})) == 0


def test_a_quantised_one_is_smaller() -> None:
    four = reference(quantization=Quantization("bnb", 4, "nf4", True))
    assert others(named(four)) < 0.45 * others(named(reference()))


def test_a_reward_model_stands_beside_the_reference() -> None:
    both = named(reference(), method__extra_models=(reference(), reference()))
    assert others(both) == 2 * others(named(reference()))


@pytest.mark.parametrize(
    ("parallelism", "share"),
    [
        (Parallelism(4, 4, 4, engine="ddp"), 1),
        (Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(2)), 1),
        (Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3)), 4),
        (Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(2)), 4),
    ],
    ids=["ddp", "zero2", "zero3", "fsdp"],
)
def test_who_shards_the_policy_shards_the_reference(parallelism: Parallelism, share: int) -> None:
    """ZeRO-3 and FSDP do (LLaMA-Factory 0.9.5 train/dpo/trainer.py:89-102)."""
    assert others(named(reference(), parallelism=parallelism)) == pytest.approx(2 * NUMBERS / share, rel=0.02)


def test_zero_3_leaves_a_quantised_reference_whole() -> None:
    four = reference(quantization=Quantization("bnb", 4, "nf4", True))
    sharded = Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3))
    assert others(named(four, parallelism=sharded)) == others(named(four))


def test_a_wider_references_forward_is_higher() -> None:
    """Its layers, not the policy's, run beside the policy's graph."""
    wide = reference(architecture=from_config({**LARGE, "intermediate_size": 65536}))
    forward = {one: estimate(named(model)) for one, model in (("wide", wide), ("narrow", reference()))}
    parts = {one: {p.name: p.components for p in found.phases}["forward"] for one, found in forward.items()}
    assert parts["wide"]["activations"] > parts["narrow"]["activations"]


def test_a_model_of_unknown_size_leaves_no_figure() -> None:
    found = estimate(named(reference(architecture=UNKNOWN)))
    assert [one.field for one in found.unknown] == ["method.extra_models"]
    assert "large" in found.unknown[0].reason


def test_models_that_nobody_names_leave_no_figure() -> None:
    found = estimate(named(reference(), method__extra_models=UNKNOWN))
    assert [one.field for one in found.unknown] == ["method.extra_models"]


def test_the_policys_own_settings_do_not_reach_it() -> None:
    plain, split = named(reference()), replace(named(reference()), {"precision.embeddings_dtype": "float32"})
    assert others(plain) == others(split)
