"""Bounds of the loader: the last that is read, and the first that is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memlint.source import comments, load
from memlint.source import json as json_source
from memlint.source import yaml as yaml_source
from memlint.source.encoding import MAX_BYTES
from memlint.source.scalars import RESOLVERS, ScalarProblem


def aliases(count: int) -> str:
    return "- &x 1\n" + "- *x\n" * count


LIMITS: dict[str, tuple[str, Callable[[int], str], int, str]] = {
    "levels of YAML": ("a.yaml", lambda n: "[" * n + "]" * n, 64, "too-deep"),
    "block levels": ("a.yaml", lambda n: "- " * n + "x", 64, "too-deep"),
    "levels of JSON": ("a.json", lambda n: "[" * n + "]" * n, 64, "too-deep"),
    "levels of JSON objects": ("a.json", lambda n: '{"a":' * n + "1" + "}" * n, 64, "too-deep"),
    "documents": ("a.yaml", lambda n: "---\na\n" * n, 100, "too-many-documents"),
    "problems of YAML": ("a.yaml", lambda n: "- !x y\n" * n, 200, "too-many-problems"),
    "problems of JSON": ("a.json", lambda n: "[" + "1, /**/" * n + "1]", 200, "too-many-problems"),
    "duplicates in JSON": ("a.json", lambda n: "{" + '"a": 1, ' * n + '"a": 1}', 200, "too-many-problems"),
    "aliased scalars": ("a.yaml", aliases, 10_000, "alias-expansion"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_file_at_its_limit_is_read(name: str) -> None:
    path, text, limit, code = LIMITS[name]

    assert code not in {problem.code for document in load(text(limit).encode(), path) for problem in document.problems}
    last = load(text(limit + 1).encode(), path)[-1]
    assert (last.value, last.problems[-1].code, last.problems[-1].fatal) == (None, code, True)


@pytest.mark.parametrize(
    ("path", "text", "values"),
    [
        ("a.json", "[1, 2, 3]", 5),
        ("a.json", '{"a": 1, "b": 2}', 6),
        ("a.json", "[[], [], {}]", 8),
        ("a.yaml", "[1, 2, 3]", 4),
        ("a.yaml", 'a: 1\n"b": 2\n', 5),
        ("a.yaml", "a: &x 1\n? *x\n: *x\n", 6),
    ],
)
def test_values_are_counted_with_their_keys(path: str, text: str, values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a collection may count as well in YAML, whose parser tells of it."""
    for bound in range(20):
        monkeypatch.setattr(yaml_source, "MAX_NODES", bound)
        monkeypatch.setattr(json_source, "MAX_NODES", bound)
        document = load(text.encode(), path)[0]
        if not document.problems:
            break
        assert [problem.code for problem in document.problems] == ["too-many-nodes"]

    assert values <= bound <= (values if path == "a.json" else 2 * values)


def test_a_file_of_the_most_bytes_is_read() -> None:
    assert load(b"#" * MAX_BYTES, "a.yaml")[0].problems == ()


def test_no_more_than_20_000_comments_are_told() -> None:
    document = load(b"#\n" * 20_001, "a.yaml")[0]

    assert len(comments(document)) == 20_000
    assert len(comments(load(b"#\n" * 20_000, "a.yaml")[0])) == 20_000


@pytest.mark.parametrize(
    ("dialect", "before", "digit", "most"),
    [
        ("yaml11", "", "9", 64),
        ("yaml11", "-", "9", 64),
        ("yaml11", "+", "9", 64),
        ("yaml11", "0x", "f", 64),
        ("yaml11", "0b", "1", 256),
        ("yaml11", "0", "7", 63),
        ("yaml11", "1:", "3", 62),
        ("omegaconf", "-", "9", 64),
        ("yaml12", "-", "9", 64),
        ("yaml12", "0x", "f", 64),
        ("yaml12", "0o", "7", 64),
        ("json", "-", "9", 64),
    ],
)
def test_integers_have_at_most_64_digits(dialect: str, before: str, digit: str, most: int) -> None:
    """Signs and prefixes are no digits."""
    resolve = RESOLVERS[dialect]
    if ":" in before:  # minutes have two digits at most, so that many parts make a long number
        before, digit, most = "1", ":10", 21

    assert isinstance(resolve(before + digit * most), int)
    with pytest.raises(ScalarProblem, match=r"digits"):
        resolve(before + digit * (most + 1))


@pytest.mark.parametrize("text", ["9" * 64, "-" + "9" * 64])
def test_a_json_integer_of_64_digits_is_read(text: str) -> None:
    assert load(text.encode(), "a.json")[0].value == int(text)
    assert load((text + "9").encode(), "a.json")[0].value == text + "9"
