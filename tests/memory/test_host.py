"""Host memory while a model is loaded, saved whole, or merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.host import base_elements, loading, merging, saving
from memlint.memory.state.parameters import units
from memlint.run import Quantization, replace
from tests.comparisons.sharding_predict import run_of, with_experts
from tests.memory.runs import run

FSDP: dict[str, object] = {
    "parallelism__engine": "fsdp",
    "parallelism__fsdp__version": 2,
    "parallelism__world_size": 4,
    "parallelism__data_parallel_size": 4,
    "parallelism__gpus_per_node": 4,
}


@pytest.mark.parametrize(("efficient", "processes"), [(True, 1), (False, 4)])
def test_one_process_of_a_node_loaded_for_all_in_transformers_4(efficient: bool, processes: int) -> None:
    one = run(**FSDP, parallelism__fsdp__cpu_ram_efficient_loading=efficient, stack__transformers=(4, 57))
    assert loading(one, units(one)) == processes * 2 * base_elements(units(one))


@pytest.mark.parametrize("efficient", [True, False])
@pytest.mark.parametrize(("stored", "processes"), [("bfloat16", 1), ("float32", 4), ("", 4)])
def test_each_process_copies_weights_that_it_converts(stored: str, processes: int, efficient: bool) -> None:
    plain = run(**FSDP, parallelism__fsdp__cpu_ram_efficient_loading=efficient)
    one = replace(plain, {"model.architecture": plain.model.architecture._replace(dtype=stored)})
    assert loading(one, units(one)) == processes * 2 * base_elements(units(one))


def test_packed_weights_go_to_the_card() -> None:
    one = run(**FSDP, model__quantization=Quantization("bnb", 4, "nf4"))
    assert loading(one, units(one)) == 0


def test_stacked_experts_are_copies_in_each_process() -> None:
    sizes: dict[str, object] = {
        "model__architecture": with_experts(4)._replace(dtype="bfloat16"),
        "stack__transformers": (5, 23),
    }
    one = run(**FSDP, **sizes)
    stacks = 4 * 8 * 3 * 192 * 256
    assert loading(one, units(one)) == 2 * (base_elements(units(one)) + 3 * stacks)


def test_under_zero_3_the_first_process_reads_for_all() -> None:
    one = run(parallelism__engine="deepspeed", parallelism__zero__stage=3, parallelism__world_size=4)
    assert loading(one, units(one)) == 2 * base_elements(units(one))


@pytest.mark.parametrize(("release", "processes"), [((4, 57), 4), ((5, 23), 1)])
def test_a_model_that_zero_3_does_not_divide_on_load_is_read_by_each_process(release: object, processes: int) -> None:
    stage3: dict[str, object] = {**FSDP, "parallelism__engine": "deepspeed", "parallelism__zero__stage": 3}
    plain = run(**stage3, parallelism__zero__shards_on_load=False, stack__transformers=release)
    one = replace(plain, {"model.architecture": plain.model.architecture._replace(dtype="bfloat16")})
    assert loading(one, units(one)) == processes * 2 * base_elements(units(one))


def test_other_engines_load_without_a_copy_on_the_host() -> None:
    assert loading(run(), units(run())) == saving(run(), units(run())) == 0


def test_a_full_state_dict_is_the_whole_model_and_a_sharded_one_is_nothing() -> None:
    kind: dict[str, object] = {"parallelism__fsdp__state_dict_type": "FULL_STATE_DICT", "saving__only_model": True}
    full = run(**FSDP, **kind, precision__trainable_dtype="float32")
    assert saving(full, units(full)) == 4 * base_elements(units(full))
    assert saving(run(**FSDP), units(run(**FSDP))) == 0


ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "benchmarks" / "data" / "saving.jsonl").read_text("utf-8").splitlines()
]


def _name(row: dict[str, Any]) -> str:
    return str(row["setting"]["name"])


def saved(setting: dict[str, Any], **changes: object) -> int:
    """Bytes on the host of two processes of one node, as the Trainer saves."""
    stated = replace(run_of(setting), {"saving.copies_on_each_rank": True, "saving.gathers_full_weights": True})
    one = replace(stated, {f"saving.{name}": value for name, value in changes.items()})
    return saving(one, units(one))


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_weights_that_real_engines_saved(row: dict[str, Any]) -> None:
    """What both ranks hold; one tensor more may be on its way (a variable of the gathering loop)."""
    held = sum(rank["weights_held"] for rank in row["ranks"])
    assert saved(row["setting"], only_model=True) == pytest.approx(held, rel=0.01, abs=5_000_000 * (held > 3e7))


@pytest.mark.parametrize("row", [one for one in ROWS if "fsdp" in one["setting"]["engine"]], ids=_name)
def test_optimizer_states_that_real_engines_gathered(row: dict[str, Any]) -> None:
    """The gathering needs a few tensors beside. Of adapters the weights beneath are more."""
    both, weights = saved(row["setting"]), saved(row["setting"], only_model=True)
    if row["setting"].get("method") == "lora":
        assert both == weights
    else:
        assert weights < both <= row["ranks"][0]["optimizer"] <= 1.15 * both


def test_nothing_is_held_where_nothing_is_saved() -> None:
    assert saved(ROWS[0]["setting"], enabled=False) == 0


def test_zero_3_gathers_half_precision_when_it_is_told_to() -> None:
    zero: dict[str, object] = {"parallelism__engine": "deepspeed", "parallelism__zero__stage": 3}
    gathered = run(**zero, parallelism__zero__gather_16bit_weights_on_model_save=True)
    assert saving(gathered, units(gathered)) == 2 * base_elements(units(gathered))
    assert saving(run(**zero), units(run(**zero))) == 0


def test_an_export_has_a_host_figure_and_nothing_on_a_card() -> None:
    exported = run(purpose="export", parallelism__engine="")
    found = estimate(exported)
    assert found.allocated_bytes is None
    assert found.host_bytes == merging(exported) > 2 * base_elements(units(exported))
