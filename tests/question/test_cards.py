"""The fewest cards, beside estimates for each number; and what a model that answers requests has left."""

from __future__ import annotations

import pytest

from memlint.hardware import common
from memlint.lint.request import StatedFacts
from memlint.question import Answer, answer, question_of
from memlint.question.cards import fewest_cards
from memlint.question.serving import serving

ALONE = StatedFacts(isolated=True)


def asked(**values: object) -> Answer:
    return answer(question_of(values))


def test_one_card_less_does_not_hold_it() -> None:
    question = question_of({"model": "llama-3-8b", "method": "full", "zero": 3, "gpu": "A100-80GB"})
    found = fewest_cards(question, ALONE)
    assert found.answer.run.estimate.verdict == "fits"
    assert found.number > 1
    before = found.tried[found.tried.index(found.number) - 1]
    assert answer(question._replace(gpus=before)).run.estimate.verdict != "fits"
    assert dict(found.by_card)["A100-80GB"] == found.number
    assert [name for name, _ in found.by_card] == [gpu.name for gpu in common()]


def test_without_a_way_to_share_the_model_zero_3_is_taken_and_told() -> None:
    found = fewest_cards(question_of({"model": "llama-3-8b", "method": "full", "gpu": "H100"}), ALONE)
    assert [one.value for one in found.answer.files.taken if one.field == "zero"] == [3]


def test_no_number_is_enough_for_a_layer_that_fits_no_card() -> None:
    question = question_of({"layers": 2, "hidden": 65536, "heads": 512, "method": "full", "gpu": "T4", "dtype": "fp16"})
    assert fewest_cards(question, ALONE).number == 0


def test_a_server_holds_all_requests_at_once() -> None:
    values = {"model": "llama-3-70b", "inference": True, "engine": "vllm", "gpu": "H100", "context": 8192}
    few, many = (fewest_cards(question_of({**values, "requests": count}), ALONE).number for count in (1, 16))
    assert 0 < few < many
    assert answer(question_of({**values, "gpus": many})).run.estimate.details["cache_requests"] >= 16


def test_the_cache_of_a_token_by_hand() -> None:
    found = serving(asked(model="llama-3-8b", inference=True, context=4096), ALONE)
    assert found is not None
    assert found.token_bytes == 32 * 8 * 128 * 2 * 2  # layers, heads, size, key and value, bytes
    assert found.request_bytes == 4096 * found.token_bytes
    assert found.left is found.most_requests is None  # no card was named


def test_an_fp8_cache_is_half() -> None:
    values = {"model": "llama-3-8b", "inference": True, "engine": "vllm", "gpu": "A100-80GB"}
    plain, small = (asked(**values, **more).run.estimate.details for more in ({}, {"kv_dtype": "fp8"}))
    assert plain["cache_request_bytes"] == 2 * small["cache_request_bytes"]


def test_the_most_requests_fit_and_one_more_does_not() -> None:
    values = {"model": "llama-3-8b", "inference": True, "gpu": "RTX4090", "context": 2048}
    found = serving(asked(**values), ALONE)
    assert found is not None and found.most_requests
    assert asked(**values, requests=found.most_requests).run.estimate.verdict == "fits"
    assert asked(**values, requests=found.most_requests + 1).run.estimate.verdict != "fits"


def test_weights_in_each_precision() -> None:
    found = serving(asked(model="llama-3-8b", inference=True), ALONE)
    assert found is not None
    sizes = dict(found.weights)
    assert sizes["fp32"] == pytest.approx(4 * 8_030_261_248, rel=1e-3)
    assert sizes["bf16"] * 2 == pytest.approx(sizes["fp32"], rel=1e-3)
    assert sizes["bf16"] > sizes["8-bit"] > sizes["4-bit"] > sizes["bf16"] / 4  # embeddings and head stay in bf16
