"""Host memory while a model is loaded, saved whole, or merged."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.memory.host import base_elements, loading, merging, saving
from memlint.memory.parameters import units
from memlint.run import Quantization, replace
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


def test_other_engines_load_without_a_copy_on_the_host() -> None:
    assert loading(run(), units(run())) == saving(run(), units(run())) == 0


def test_a_full_state_dict_is_the_whole_model_and_a_sharded_one_is_nothing() -> None:
    full = run(**FSDP, parallelism__fsdp__state_dict_type="FULL_STATE_DICT", precision__trainable_dtype="float32")
    assert saving(full, units(full)) == 4 * base_elements(units(full))
    assert saving(run(**FSDP), units(run(**FSDP))) == 0


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
