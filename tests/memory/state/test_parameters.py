"""From architecture to tensors: trainable flags, adapters, quantised bytes."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.memory.state import parameters
from memlint.memory.state.storage import quantized_bytes
from memlint.run import UNKNOWN, Quantization, Run, replace
from tests.memory.runs import LORA, run

LAYER = 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 704 + 2 * 256


def trainable(case: Run) -> int:
    return parameters.total(parameters.units(case), trainable=True)


def test_full_trains_everything() -> None:
    units = parameters.units(run())
    assert parameters.total(units) == parameters.total(units, trainable=True) == 2 * 4000 * 256 + 256 + 4 * LAYER


def test_equal_layers_are_one_unit() -> None:
    assert [(unit.name, unit.repeat) for unit in parameters.units(run())] == [
        ("embedding", 1),
        ("layer", 4),
        ("head", 1),
    ]


def test_lora_on_all_linear_layers_counts_inputs_and_outputs() -> None:
    ends = (256 + 256) + 2 * (256 + 128) + (256 + 256) + 2 * (256 + 704) + (704 + 256)
    assert trainable(run(**LORA)) == 4 * 8 * ends


def test_targets_match_by_suffix_and_rank_pattern_wins() -> None:
    case = run(method__kind="lora", method__rank=8, method__targets=("q_proj",), method__rank_pattern=(("q_proj", 2),))
    assert trainable(case) == 4 * 2 * 512


def test_dora_adds_a_magnitude_per_output() -> None:
    case = run(method__kind="lora", method__rank=8, method__targets=("q_proj",), method__use_dora=True)
    assert trainable(case) == 4 * (8 * 512 + 256)


@pytest.mark.parametrize(("layers", "expected"), [(2, {2, 3}), (-1, {0}), (9, {0, 1, 2, 3})])
def test_freeze_trains_the_last_or_first_layers(layers: int, expected: set[int]) -> None:
    assert parameters.trainable_layers(run(method__freeze_trainable_layers=layers), 4) == expected


def test_llama_pro_trains_every_nth_layer() -> None:
    case = run(method__freeze_trainable_layers=2, method__use_llama_pro=True)
    assert parameters.trainable_layers(case, 8) == {3, 7}


@pytest.mark.parametrize(
    ("changes", "adapts"),
    [
        ({}, True),
        ({"method__targets": ("q_proj",)}, True),
        ({"method__targets": ("nothing",)}, False),
        ({"method__rank": 0}, False),
        ({"method__exclude_modules": ("q_proj",), "method__targets": ("q_proj",)}, False),
        ({"method__layers_to_transform": (9,)}, False),
        ({"method__freeze_language_model": True}, False),
    ],
)
def test_what_surely_gets_an_adapter_trains(changes: dict[str, object], adapts: bool) -> None:
    case = run(**{**LORA, **changes})
    assert parameters.surely_adapts(case) == adapts == (trainable(case) > 0)


def test_modules_to_save_are_trained_copies_beside_the_frozen_original() -> None:
    case = run(**LORA, method__modules_to_save=("lm_head",))
    assert trainable(case) - trainable(run(**LORA)) == 4000 * 256
    assert parameters.total(parameters.units(case)) - parameters.total(parameters.units(run(**LORA))) == 4000 * 256


@pytest.mark.parametrize("names", [("lm_head",), ("embed_tokens",), ("lm_head", "embed_tokens")])
def test_a_tied_matrix_is_copied_once_for_each_module_that_is_saved(names: tuple[str, ...]) -> None:
    tied = {"tie_word_embeddings": True}
    case = run(tied, **LORA, method__modules_to_save=names)
    assert trainable(case) - trainable(run(tied, **LORA)) == len(names) * 4000 * 256


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        # 2**20 weights: packed 2**19; 16384 block constants in fp32; the code table
        (Quantization("bnb", 4, "nf4"), 2**19 + 65536 + 512),
        # constants as bytes, 64 second-level fp32, the offset, the code table
        (Quantization("bnb", 4, "nf4", True), 2**19 + 16384 + 512 + 512 + 512),
        (Quantization("bnb", 8, "int8"), 2**20 + 4096),
        (Quantization("gptq", 4, group_size=128), 2**19 + 16384 + 4096 + 4096),
    ],
)
def test_quantised_bytes(quantization: Quantization, expected: int) -> None:
    assert quantized_bytes((1024, 1024), quantization) == expected


@pytest.mark.parametrize(
    "field", ["modules_to_save", "freeze_trainable_layers", "freeze_trainable_modules", "freeze_extra_modules"]
)
def test_what_trains_is_unknown_where_a_placeholder_decides_it(field: str) -> None:
    kind = LORA if field == "modules_to_save" else {"method__kind": "freeze", "method__freeze_trainable_layers": 2}
    found = estimate(replace(run(**{**kind, "precision__trainable_dtype": "float32"}), {f"method.{field}": UNKNOWN}))
    assert found.verdict == "unknown" and [missing.field for missing in found.unknown] == [f"method.{field}"]
