"""What rotary embedding holds, by how a family's code writes it, against simulated steps of their classes."""

from __future__ import annotations

import pytest

from memlint.memory.autograd.tape import Value, counters
from memlint.memory.estimate import estimate
from memlint.memory.families.traits import Family, RotaryTraits
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.rotary import rotate
from memlint.memory.state.parameters import units
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of


def most(traits: RotaryTraits) -> dict[tuple[str, int], int]:
    """The most tensors of each size that are alive at once while queries and keys are rotated."""
    kernels = KernelConfig(2)
    tape = kernels.tape(grad=False)
    tables = Value.external("rope", 2), Value.external("rope", 2)
    context = LayerContext(tape, kernels, {}, *tables, Family(rotary=traits))
    rotate(context, 1.0, tape.new("query", 2), tape.new("key", 2))
    peaks = tape.take_peaks()
    found: dict[tuple[str, int], int] = {}
    for live in peaks.packed:
        for size, number in zip(peaks.tensor_sizes, counters(live), strict=False):
            key = (size.extent, size.width)
            found[key] = max(found.get(key, 0), number)
    return found


def test_both_are_held_in_fp32_until_both_are_rotated() -> None:
    found = most(RotaryTraits(in_fp32=True))
    assert found["query", 4] == 4  # cast, times the cosine, rotated by half, times the sine
    assert found["query", 2] == 2  # as it came, and as it goes


def test_a_layer_that_spreads_tables_has_two_of_its_own() -> None:
    assert most(RotaryTraits(factors_in_fp32=True, spreads_tables=True))["rotary_table", 4] == 2
    assert ("rotary_table", 4) not in most(RotaryTraits(factors_in_fp32=True))


# Both in fp32 (cohere2_moe), factors in fp32 and tables of each layer's own (ernie4_5, ernie4_5_moe), tables in fp32
# (olmo), layers without rotary embedding before those with it and a last norm that is named after the embedding (lfm2),
# one copy of the checkpointed input for all of its readers (olmo2, exaone4).
@pytest.mark.parametrize(
    ("family", "method"),
    [
        ("cohere2_moe", "lora"),
        ("ernie4_5", "pure"),
        ("ernie4_5_moe", "lora"),
        ("olmo", "pure"),
        ("lfm2", "full"),
        ("olmo2", "full"),
        ("exaone4", "full"),
    ],
)
def test_a_checkpointed_step_holds_what_a_simulated_one_does(family: str, method: str) -> None:
    config = members()[family]
    run = run_of(config, Step(method, True, "sdpa"))
    found = {phase.name: phase.allocated_bytes for phase in estimate(run).phases}
    assert found["backward"] == pytest.approx(simulate(run, config).backward, rel=0.01)


def test_the_norm_before_the_head_is_not_part_of_the_embedding() -> None:
    """LFM2 calls it `embedding_norm`."""
    run = run_of(members()["lfm2"], Step("full", False, "sdpa"))
    first, *_, last = units(run)
    assert [tensor.name for tensor in first.tensors] == ["model.embed_tokens.weight"]
    assert "model.embedding_norm.weight" in [tensor.name for tensor in last.tensors]
