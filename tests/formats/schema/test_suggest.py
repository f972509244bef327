"""Did you mean: which known word a slip is taken for, and which words are no slips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.formats.schema.suggest import LONGEST, distance, nearest

WORDS = st.text("abc_", max_size=8)


@given(WORDS, WORDS)
def test_the_distance_is_symmetric_and_zero_for_equal_words(left: str, right: str) -> None:
    assert distance(left, right, 99) == distance(right, left, 99)
    assert (distance(left, right, 99) == 0) == (left == right)


@given(WORDS, WORDS, st.integers(1, 8))
def test_a_bound_cuts_the_distance_off_and_changes_no_smaller_one(left: str, right: str, bound: int) -> None:
    assert min(distance(left, right, bound), bound) == min(distance(left, right, 99), bound)


@pytest.mark.parametrize(
    ("left", "right", "slips"),
    [("rank", "rnak", 1), ("rank", "ran", 1), ("rank", "rankk", 1), ("rank", "bank", 1), ("rank", "", 4)],
)
def test_a_slip_counts_once(left: str, right: str, slips: int) -> None:
    assert distance(left, right, 99) == slips


@pytest.mark.parametrize(
    ("word", "known"),
    [("lora_rnak", "lora_rank"), ("LoRA-Rank", "lora_rank"), ("rank_lora", "lora_rank"), ("lora.alpha", "lora_alpha")],
)
def test_the_nearest_word(word: str, known: str) -> None:
    assert nearest(word, ["other", "lora_alpha", "lora_rank"]) == known


def test_a_word_of_its_own_is_no_slip() -> None:
    """A section `lora` is none of Axolotl's `mora`."""
    assert nearest("lora", ["mora", "lora_r"]) == ""


@pytest.mark.parametrize("word", ["completely_else", "", "x" * 10_000, "lora_rank" + "_" * LONGEST])
def test_a_word_that_is_no_slip_has_no_suggestion(word: str) -> None:
    assert nearest(word, ["lora_rank"]) == ""


def test_a_short_word_allows_one_slip() -> None:
    assert nearest("bf61", ["bf16"]) == "bf16"
    assert nearest("bx61", ["bf16"]) == ""


def test_two_letters_and_another_beginning_make_another_word() -> None:
    assert nearest("ranking", ["packing"]) == ""
    assert nearest("pakcinh", ["packing"]) == "packing"


def test_a_name_with_cut_words_is_taken_for_the_whole_one() -> None:
    known = ["stage3_max_live_parameters", "stage3_max_reuse_distance", "eval_dataset"]
    assert nearest("stage3_max_live_params", known) == "stage3_max_live_parameters"
    assert nearest("eval_data", known) == "eval_dataset"
    for other in ("stage3_max_live", "stage3_min_live_params", "stage3_max_live_pages", "params"):
        assert nearest(other, known) == ""


def test_a_long_name_may_lack_one_word_or_have_one_more() -> None:
    known = "stage3_gather_16bit_weights_on_model_save"
    assert nearest("stage3_gather_16bit_weights_on_save", [known]) == known
    assert nearest("stage3_gather_all_16bit_weights_on_model_save", [known]) == known
    assert nearest("gather_16bit_save", ["gather_16bit_model_save"]) == ""


def test_a_name_that_ends_another_is_taken_for_it_rather_than_for_two_slips() -> None:
    assert nearest("use_fast", ["use_eaft", "tokenizer_use_fast"]) == "tokenizer_use_fast"
    assert nearest("use_eatf", ["use_eaft", "x_use_eatf"]) == "use_eaft"
