"""Every method of every engine has a figure, a bound, or a reason why there is none."""

from __future__ import annotations

import re

from benchmarks.accuracy.methods import ENGINES, NONE, TABLE, cells

_FIGURE = re.compile(r"\d+ GiB, [a-z_]+$")
_BOUND = re.compile(r".*at least [\d.]+ GiB\b.*\S")
_UNKNOWN = re.compile(r"UNKNOWN: \S.{10,}")


def test_every_cell_says_one_of_them() -> None:
    found = list(cells())
    assert {(method, engine) for method, engine, _ in found} == {(row, engine) for row in TABLE for engine in ENGINES}
    assert len(found) == len(TABLE) * len(ENGINES)
    for method, engine, words in found:
        kinds = [words == NONE, *(bool(one.match(words)) for one in (_FIGURE, _BOUND, _UNKNOWN))]
        assert sum(kinds) == 1, (method, engine, words)


def test_each_trainer_that_exists_has_a_figure_or_says_what_it_lacks() -> None:
    words = {(method, engine): said for method, engine, said in cells()}
    assert not {place for place, said in words.items() if said.startswith("UNKNOWN")}
    bounds = {place for place, said in words.items() if "at least" in said}
    # TRL's PPO has no bound for prompts.
    assert bounds == {("PPO", "trl"), ("PRIME", "verl")}
