"""Cards by the names that people, settings and jobs give them."""

from __future__ import annotations

import pytest

from memlint.errors import UsageError
from memlint.hardware.named import may_be_smaller, named_gpu, requested_card


@pytest.mark.parametrize(("name", "count"), [("H100", None), ("8xH100", 8), ("H100 x 8", 8), ("A100-80GB", None)])
def test_a_card_with_or_without_a_number(name: str, count: int | None) -> None:
    card, number = named_gpu(name)
    assert card is not None and number == count


def test_an_unknown_name_is_a_mistake_of_its_user() -> None:
    with pytest.raises(UsageError, match="did you mean"):
        named_gpu("H10O")


@pytest.mark.parametrize(("name", "is_largest_of_several"), [("a100", True), ("a100-80gb", False), ("h100", False)])
def test_a_job_that_names_a_card_of_several_sizes(name: str, is_largest_of_several: bool) -> None:
    card, detail = requested_card(name)
    assert card is not None and may_be_smaller(detail) == is_largest_of_several
