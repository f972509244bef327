"""Layers that store keys and values for later ones hold their input where they are run again."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.memory.segments.shared_keys import held_input, layers_storing
from memlint.memory.segments.step import training_step
from memlint.memory.state.parameters import units
from memlint.run import Checkpointing, Run, replace
from tests.comparisons.families import Step, members, run_of
from tests.memory.compare import estimated_and_simulated

OWN = members()["gemma4/own_embeddings"]


def run_with(mode: str, reentrant: bool) -> Run:
    run = run_of(OWN, Step("full", True, "sdpa"))
    return run._replace(checkpointing=Checkpointing(mode, reentrant=reentrant))


def test_the_last_layer_of_each_kind_with_keys_of_its_own_stores_them() -> None:
    """Six layers, alternating windows, of which the last two read the keys of the third and the fourth."""
    run = run_with("full", True)
    step = training_step(run, units(run))
    layers = [unit for unit in units(run) if unit.name == "layer"]
    stored = [layers_storing(step, unit) for unit in layers]
    assert sum(stored) == 2
    assert [unit.layer_index for unit, count in zip(layers, stored, strict=True) if count] == [2, 3]


@pytest.mark.parametrize(("release", "storing"), [((5, 23), 0), ((5, 24), 2)])
def test_keys_that_no_layer_reads(release: tuple[int, ...], storing: int) -> None:
    """transformers 5.24 models/gemma4/configuration_gemma4.py, kv_sharing_modes; 5.23 returned [None] there."""
    run = replace(run_of(members()["gemma4_text"], Step("full", True, "sdpa")), {"stack.transformers": release})
    step = training_step(run, units(run))
    assert sum(layers_storing(step, unit) for unit in units(run)) == storing


def test_a_reentrant_checkpoint_alone_holds_them() -> None:
    for mode, reentrant, held in (("full", True, True), ("full", False, False), ("none", True, False)):
        run = run_with(mode, reentrant)
        step = training_step(run, units(run))
        assert (held_input(step) > 0) == held


def test_they_raise_the_peak_of_the_backward() -> None:
    """Both inputs and both gradients: 0.75 MiB each."""
    found = {
        reentrant: {phase.name: phase.allocated_bytes for phase in estimate(run_with("full", reentrant)).phases}
        for reentrant in (True, False)
    }
    assert found[True]["backward"] > found[False]["backward"]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layers", [("sliding", "full"), ("sliding", "sliding", "full", "full")], ids=["two", "four"])
def test_a_layer_that_runs_again_replaces_what_it_stored(layers: tuple[str, ...], attention: str) -> None:
    """Its keys and values count once beside those of the other kind, whether attention saves them (sdpa) or copies of
    them for all heads (eager)."""
    config = {**members()["gemma4_unified_text"], "num_hidden_layers": len(layers)}
    config["layer_types"] = [f"{kind}_attention" for kind in layers]
    found, real = estimated_and_simulated(config, Step("lora", True, attention))
    assert found["backward"] == pytest.approx(real.backward, rel=0.005)
