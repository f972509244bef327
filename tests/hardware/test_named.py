"""Cards by the names that people, settings and jobs give them."""

from __future__ import annotations

import pytest

from memlint.errors import UsageError
from memlint.hardware.named import may_be_smaller, named_gpu, requested_card


@pytest.mark.parametrize(
    ("name", "count"),
    [("H100", None), ("8xH100", 8), ("H100 x 8", 8), ("A100-80GB", None), ("H100:8", 8), ("gpu:a100-80gb:4", 4)],
)
def test_a_card_with_or_without_a_number(name: str, count: int | None) -> None:
    card, number = named_gpu(name)
    assert card is not None and number == count


@pytest.mark.parametrize(
    ("name", "meant"), [("H10O", "H100-80GB"), ("RTX 3050 Ti", "RTX 3050"), ("8xH10O", "H100-80GB")]
)
def test_an_unknown_name_is_a_mistake_of_its_user(name: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"did you mean {meant}"):
        named_gpu(name)


@pytest.mark.parametrize("name", ["A100", "8xA100", "a100:8"])
def test_a_name_of_several_sizes_is_asked_back_with_all_of_them(name: str) -> None:
    with pytest.raises(UsageError, match="sold in several sizes: say A100-40GB, A100-64GB or A100-80GB"):
        named_gpu(name)


@pytest.mark.parametrize(("name", "is_largest_of_several"), [("a100", True), ("a100-80gb", False), ("h100", False)])
def test_a_job_that_names_a_card_of_several_sizes(name: str, is_largest_of_several: bool) -> None:
    card, detail = requested_card(name)
    assert card is not None and may_be_smaller(detail) == is_largest_of_several
