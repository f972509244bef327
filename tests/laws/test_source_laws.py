"""What holds for every input of the loader."""

from __future__ import annotations

import json
import re

import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from memlint.source import Document, comments, in_dialect, load
from memlint.source.excerpt import columns, excerpt
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
def test_in_dialect_equals_load(text: str, first: str, second: str) -> None:
    data = text.encode()
    for before, expected in zip(documents(data, dialect=first), documents(data, dialect=second)):
        after = in_dialect(before, second)

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


YAML_TEXTS = VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True))


def counted(text: str, offset: int) -> tuple[int, int]:
    """Line and column as an editor counts them."""
    before = text[:offset].replace("\r\n", "\n\n").replace("\r", "\n") if "\r" in text else text[:offset]
    ends = len(re.findall(r"\r\n|\r|\n", text[:offset]))
    return ends + 1, offset - before.rfind("\n")


@LAW
@given(
    MESSES | VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True)), st.sampled_from(["a.yaml", "a.json"])
)
@example("a: [1,\r\n  2]\r\nb: 'x\n\n  y'\n", "a.yaml")
def test_lines_and_columns_are_those_of_an_editor(text: str, path: str) -> None:
    for document in documents(text.encode(), path):
        spans = [place.value for place in document.places.values()]
        spans += [place.key for place in document.places.values() if place.key is not None]
        for span in [*spans, *(problem.span for problem in document.problems)]:
            assume("\r\n" not in (document.text[at - 1 : at + 1] for at in (span.start, span.end)))
            assert (span.line, span.column) == counted(document.text, span.start)
            assert (span.end_line, span.end_column) == counted(document.text, span.end)


@LAW
@given(YAML_TEXTS, st.integers(-1, 5))
def test_places_and_plain_texts_are_mappings_by_path(text: str, other: int) -> None:
    (document,) = documents(text.encode())
    paths = list(document.places)

    assert len(paths) == len(document.places) == len(set(paths))
    assert all(path in document.places for path in paths)
    assert [path for path in document.plain if document.plain[path] is None] == []
    assert len(document.plain) == len(list(document.plain))
    assert paths == sorted(paths, key=lambda path: [paths.index(path[:length]) for length in range(len(path) + 1)])
    for path in paths:
        strange = (*path, other)
        assert (strange in document.places) == (strange in paths) == (document.places.get(strange) is not None)
        assert (path in document.plain) == (document.plain.get(path) is not None)


JSON_PIECES = st.sampled_from([
    "{", "}", "[", "]", ",", ":", '"a"', '"b"', '""', '"\\n"', '"\\u00e9"', "1", "-1", "0", "1.5", "1e5", "-0.0",
    "true", "false", "null", " ", "\n", "\t", '{"a": ', "[1, ", '"a": 1', "+1", "01", "1.", "nul",
])  # fmt: skip


@LAW
@given(st.lists(JSON_PIECES, max_size=12).map("".join) | VALUES.map(lambda value: json.dumps(value, indent=1)))
def test_json_is_read_where_the_standard_library_reads_it_and_nowhere_else(text: str) -> None:
    (document,) = load(text.encode(), "a.json")
    try:
        expected = json.loads(text)
    except ValueError:
        assert document.problems
        return

    assert {problem.code for problem in document.problems} <= {"duplicate-key", "huge-integer", "json-nan"}
    if not document.problems:
        assert repr(document.value) == repr(expected)


MENDABLE = st.recursive(
    st.sampled_from([None, True, False, 1, 2.5, "a", ""]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS.filter(str.isalnum), inner, max_size=3)
    ),
    max_leaves=8,
)


@LAW
@given(MENDABLE, st.sampled_from(["/* , */", "// [\n", "# {\n", "/* a\n b */"]))
def test_comments_change_no_json_value(value: object, comment: str) -> None:
    text = json.dumps(value, indent=1)
    messy = text.replace("\n", f" {comment}\n")
    (document,) = load(f"{comment}{messy} {comment}".encode(), "a.json")

    assert repr(document.value) == repr(value)
    assert {problem.code for problem in document.problems} == {"json-comment"}
    assert len(document.problems) == messy.count(comment) + 2
    for problem in document.problems:
        assert document.text[problem.span.start : problem.span.end] == comment.rstrip("\n")


@LAW
@given(MENDABLE.filter(lambda value: isinstance(value, (list, dict)) and value))
def test_trailing_commas_are_read_and_marked(value: object) -> None:
    text = re.sub(r"(?<![\[{])(\n *[\]}])", r",\1", json.dumps(value, indent=1))
    (document,) = load(text.encode(), "a.json")

    assert repr(document.value) == repr(value)
    assert [text[problem.span.start : problem.span.end] for problem in document.problems] == [","] * len(
        document.problems
    )
    assert len(document.problems) == len(re.findall(r",\n *[\]}]", text)) > 0


@LAW
@given(
    st.integers(1, 2030), st.integers(0, 13), st.integers(0, 32), st.integers(0, 25), st.integers(0, 61),
    st.sampled_from(["", " +5", " -23:59", "Z", " +24", " +5:30", ".5", " +1:75"]), st.sampled_from(["date", "T", " "]),
)  # fmt: skip
def test_a_date_that_there_is_not_is_told(
    year: int, month: int, day: int, hour: int, minute: int, zone: str, style: str
) -> None:
    raw = f"{year:04}-{month:02}-{day:02}"
    raw += "" if style == "date" else f"{style}{hour:02}:{minute:02}:{minute:02}{zone}"
    try:
        yaml.safe_load(raw)
        exists = True
    except (ValueError, OverflowError):
        exists = False

    (document,) = documents(raw.encode())

    assert [problem.code for problem in document.problems] == ([] if exists else ["impossible-date"])
    assert document.value == raw


# A text and whether its comment is one.
ENTRIES = [
    ("{key}: 1  {comment}", True),
    ("{key}:  {comment}", True),
    ("{key}: 'x # no'  {comment}", True),
    ('{key}: "x # no"', False),
    ("{key}: x#no", False),
    ('"{key}#no": 1  {comment}', True),
    ("{key}: |  {comment}\n  # no", True),
    ("{key}: >-\n  # no\n  {comment}", False),
    ("{key}: [1,  {comment}\n  2]", True),
    ("{key}:  {comment}\n  - 'a#b'\n  - c", True),
    ("{key}: {{a: 1, 'b#c': 'd # e'}}  {comment}", True),
]


@LAW
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(ENTRIES), st.booleans()), max_size=5), st.booleans())
def test_comments_are_found_wherever_they_stand(parts: list[tuple[str, tuple[str, bool], bool]], known: bool) -> None:
    """`known`: whether the layout knows all scalars, or the text is parsed again for them (a duplicate key)."""
    text, wanted = ("" if known else "z: '# no'\nz: 1\n"), []
    for number, (word, (shape, ends), own) in enumerate(parts):
        if own:
            text += f"# own {word}\n"
            wanted.append((f"own {word}", True))
        text += shape.format(key=f"{word}{number}", comment=f"# at {word}") + "\n"
        if ends:
            wanted.append((f"at {word}", False))
    found = comments(documents(text.encode())[0])

    assert [(comment.text, comment.own_line) for comment in found] == wanted


@LAW
@given(st.text("ab\t é", max_size=12), st.text("xy\t", min_size=1, max_size=4), st.text("cd\t", max_size=8))
def test_the_caret_stands_under_what_is_marked(before: str, marked: str, after: str) -> None:
    """Tabs go to the next multiple of 4, as str.expandtabs says."""
    line = before + marked + after
    shown = excerpt(f"#\n{line}\n#", 2, len(before) + 1, 2, len(before) + len(marked) + 1)

    assert shown.line == line.expandtabs(4)
    assert shown.caret == len(before.expandtabs(4))
    assert shown.caret + shown.width == len((before + marked).expandtabs(4))


@LAW
@given(st.integers(0, 400), st.integers(1, 300), st.integers(0, 400), st.sampled_from(["x", "日"]))
def test_a_long_line_is_cut_and_says_so(before: int, marked: int, after: int, letter: str) -> None:
    """What is shown is a part of the line, `...` where something is left out, and the mark is on the marked."""
    line = "a" * before + letter * marked + "b" * after
    shown = excerpt(line, 1, before + 1, 1, before + marked + 1)
    inside = shown.line.removesuffix("...") if not shown.line.endswith(line[-1]) else shown.line

    assert columns(shown.line) <= 163
    assert inside.removeprefix("...") in line
    assert shown.line.startswith("...") == (before > 80)
    assert shown.width > 0
    assert set(inside[shown.caret :][:marked]) <= {letter, "b", "."}
    assert inside[shown.caret] == letter
    if columns(line) <= 160:
        assert (shown.line, shown.caret, shown.width) == (
            ("..." + line[before - 80 :], 83, columns(letter) * marked)
            if before > 80
            else (line, before, columns(letter) * marked)
        )
