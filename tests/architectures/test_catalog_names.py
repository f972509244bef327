"""Which catalog row a name that is not listed itself leads to, over rows made for the purpose."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures import names
from memlint.architectures.catalog_names import by_rule
from memlint.architectures.model import StoredWeights

SMALL: dict[str, Any] = {"ids": ["acme/Rocket-7B", "acme/Rocket-7B-Instruct"], "config": {"layers": 7}}
LARGE: dict[str, Any] = {"ids": ["acme/Rocket-2.7B"], "config": {"layers": 27}}
UNSIZED: dict[str, Any] = {"ids": ["acme/Glider-R1"], "config": {"layers": 61}}
ROWS = {names.literal(one.split("/")[1]): row for row in (SMALL, LARGE, UNSIZED) for one in row["ids"]}


def found(name: str) -> tuple[str, str, StoredWeights | None] | None:
    """(identifier, reason, stored) that `name` leads to."""
    hit = by_rule(name, ROWS.get)
    return None if hit is None else (hit[0], hit[2], hit[3])


@pytest.mark.parametrize(
    ("name", "identifier"),
    [
        ("mirror/Rocket-7B", "acme/Rocket-7B"),
        ("mirror/rocket_7b_instruct", "acme/Rocket-7B-Instruct"),
        ("/models/Rocket-7B/checkpoint-500", "acme/Rocket-7B"),
        ("Rocket-7B/unheard-of", "acme/Rocket-7B"),
        ("Rocket-2.7B/Rocket-7B", "acme/Rocket-7B"),
        ("/data/rocket/7B", "acme/Rocket-7B"),
        ("/data/rocket_hf/7b-instruct/", "acme/Rocket-7B-Instruct"),
        ("someone/Rocket-7B-sft", "acme/Rocket-7B"),
        ("someone/Rocket-7B-for-cooks", "acme/Rocket-7B"),
        ("someone/Rocket-7B-sft-10M", "acme/Rocket-7B"),
        ("someone/Glider-R1-Zero", "acme/Glider-R1"),
    ],
)
def test_a_name_leads_to_the_row_that_has_its_key(name: str, identifier: str) -> None:
    hit = found(name)
    assert hit is not None and hit[0] == identifier


@pytest.mark.parametrize(
    "name",
    [
        "",
        "acme/Comet-7B",
        "acme/Rocket-8B",
        "acme/Rocket-7B-vision",
        "checkpoint-500",
        "acme/7B",
        "7B",
        "acme/Glider-R1-Zero-7B",
    ],
)
def test_other_names_lead_nowhere(name: str) -> None:
    assert found(name) is None


def test_a_row_gives_its_own_configuration() -> None:
    hit = by_rule("mirror/Rocket-2.7B", ROWS.get)
    assert hit is not None and hit[1] == {"layers": 27}


def test_the_last_part_of_a_path_comes_first() -> None:
    asked: list[str] = []
    by_rule("Rocket-7B/Comet-1B", lambda key: asked.append(key))  # type: ignore[func-returns-value]

    assert asked[0] == "comet1b" and asked.index("comet1b") < asked.index("rocket7b")


def test_a_mirror_is_said_to_be_one() -> None:
    hit = found("mirror/rocket-7b")
    assert hit is not None and hit[1] == "`rocket-7b` is the repository name of acme/Rocket-7B"


def test_another_reading_says_by_which_rule() -> None:
    hit = found("someone/Rocket-7B-GPTQ-Int4")
    assert hit is not None and hit[1].startswith("`Rocket-7B-GPTQ-Int4` read as acme/Rocket-7B: quantised variant")
    assert hit[2] is not None and (hit[2].method, hit[2].bits) == ("gptq", 4)


def test_a_size_with_another_point_is_another_model() -> None:
    """ "Hermes-Rocket-27B" and "Rocket-2.7B" have one key."""
    assert names.literal("Rocket-27B") == names.literal("Rocket-2.7B")
    assert found("Hermes-Rocket-27B") is None
    assert (found("Hermes-Rocket-2.7B") or ("",))[0] == "acme/Rocket-2.7B"
