"""What holds for every input of the loader."""

from __future__ import annotations

import json

import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from memlint.source import Document, comments, load, redialect
from memlint.source.excerpt import excerpt
from memlint.source.scalars import RESOLVERS, ScalarProblem

LAW = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DIALECTS = st.sampled_from(sorted(RESOLVERS))

# Text made of what YAML and JSON are made of finds more than text of any characters.
PIECES = st.sampled_from([
    "a", "b", "key", ": ", ":", "- ", "-", "\n", "\n  ", "\r\n", "[", "]", "{", "}", ", ", "'", '"', "#", " # x", "&x ",
    "*x", "<<: ", "<<", "? ", "|\n", ">-\n", "|2\n", "!!str ", "!!int ", "!x ", "---\n", "...\n", "%YAML 1.1\n", "1",
    "1e-5", "0x1F", "on", "~", "null", "true", "é", "🙂", "\u2028", "\x85", "\ufeff", "\t", "\0", "{{ x }}",
    "2024-13-01",     "\\", "\\n", "\\u", "\\x", "//", "/*", "*/", "NaN", "9" * 70, "=", "@", "`", "%",
])  # fmt: skip
MESSES = st.lists(PIECES, max_size=40).map("".join)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12), PIECES,
)  # fmt: skip
KEYS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8), st.sampled_from(["a", "on", "1e5", "~"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def documents(data: bytes, path: str = "a.yaml", dialect: str = "yaml11") -> tuple[Document, ...]:
    return load(data, path, dialect=dialect)


def is_sound(document: Document) -> None:
    size = len(document.text)
    spans = [span for place in document.places.values() for span in (place.key, place.value) if span]
    spans += [span for problem in document.problems for span in (problem.span, problem.related) if span]
    spans += [comment.span for comment in comments(document)]
    for span in spans:
        assert 0 <= span.start <= span.end <= size
        assert 1 <= span.line <= span.end_line
        assert span.column >= 1 and span.end_column >= 1
        excerpt(document.text, *span[2:])
    for path in document.plain:
        assert path in document.places
    if any(problem.fatal for problem in document.problems):
        assert document.value is None


@LAW
@given(st.one_of(st.binary(max_size=200), MESSES.map(str.encode)), st.sampled_from(["a.yaml", "a.json", "-"]), DIALECTS)
@example(b"", "-", "yaml11")
@example(b"\xff\xfe\0\xd8", "a.yaml", "yaml11")
@example(b'"H\\u', "a.json", "yaml11")
def test_loading_never_raises_and_every_span_lies_in_the_text(data: bytes, path: str, dialect: str) -> None:
    found = documents(data, path, dialect)

    assert [document.index for document in found] == list(range(len(found)))
    for document in found:
        is_sound(document)


@LAW
@given(MESSES.map(str.encode) | VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True).encode()))
def test_values_equal_pyyaml_or_there_is_an_error(data: bytes) -> None:
    found = documents(data)
    refused = [problem for document in found for problem in document.problems if problem.severity == "error"]
    assume(b"\xef\xbb\xbf" not in data)
    if refused:
        return
    expected = list(yaml.load_all(data, Loader=yaml.CSafeLoader)) or [None]

    assert repr(_undated([document.value for document in found])) == repr(_undated(expected))


def _undated(value: object) -> object:
    """Merged keys stand elsewhere in PyYAML's mappings, and dates are strings here."""
    if isinstance(value, dict):
        return sorted(((repr(key), _undated(item)) for key, item in value.items()), key=repr)
    if isinstance(value, list):
        return [_undated(item) for item in value]
    return str(value) if value.__class__.__module__ == "datetime" else value


@LAW
@given(VALUES)
def test_json_equals_the_standard_library(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        (document,) = load(text.encode(), "a.json")
        assume(not document.problems)

        assert repr(document.value) == repr(json.loads(text))
        is_sound(document)


@LAW
@given(VALUES, st.sampled_from([None, True, False]))
def test_the_text_of_a_scalar_reads_as_that_scalar(value: object, flow: bool | None) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, default_flow_style=flow)
    (document,) = documents(text.encode())
    for path, place in document.places.items():
        said = document.text[place.value.start : place.value.end]
        found = document.value
        for part in path:
            found = found[part]
        if not isinstance(found, (dict, list)) and said[:1] not in ("|", ">"):
            assert repr(documents(said.encode())[0].value) == repr(found)


@LAW
@given(MESSES | VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True)), DIALECTS, DIALECTS)
@example("on: 1\ntrue: 2\n", "yaml11", "yaml12")
@example("a: &x {1e5: 1}\nb: {<<: *x}\n", "yaml11", "omegaconf")
@example("a: 2024-13-01\n", "yaml11", "omegaconf")
@example("a: 1e5\nb: 010\n", "omegaconf", "yaml11")
def test_redialect_equals_load(text: str, first: str, second: str) -> None:
    data = text.encode()
    for before, expected in zip(documents(data, dialect=first), documents(data, dialect=second)):
        after = redialect(before, second)

        assert repr(after.value) == repr(expected.value)
        assert after.problems == expected.problems
        assert repr(dict(after.places)) == repr(dict(expected.places))
        assert repr(dict(after.plain)) == repr(dict(expected.plain))
        assert (after.dialect, after.aliases) == (expected.dialect, expected.aliases)


@LAW
@given(VALUES)
def test_newlines_and_byte_order_mark_change_no_value(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    plain = documents(text.encode())
    assume("\r" not in text)

    for data in (
        text.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text.encode(),
        ("\ufeff" + text).encode("utf-16-le"),
    ):
        for one, other in zip(plain, documents(data)):
            assert repr(one.value) == repr(other.value)
            lines = [place.value.line for place in one.places.values()]
            assert lines == [place.value.line for place in other.places.values()]


@LAW
@given(st.text(max_size=20) | PIECES, DIALECTS)
def test_resolvers_raise_nothing_else(raw: str, dialect: str) -> None:
    try:
        value = RESOLVERS[dialect](raw)
    except ScalarProblem as problem:
        assert str(problem)
    else:
        assert value is None or isinstance(value, (str, int, float))
