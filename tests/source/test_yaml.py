from __future__ import annotations

import pytest
import yaml as pyyaml

from memlint.source import Document, load


def read(text: str, dialect: str = "yaml11") -> Document:
    (document,) = load(text.encode(), "config.yaml", dialect=dialect)
    return document


def only_code(document: Document) -> str:
    (problem,) = document.problems
    return problem.code


SYNTHETIC = """\
### model
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
quantization_bit: 4  # bitsandbytes
on: off
lora_target: [q_proj, 'v_proj', "k\\nproj"]
learning_rate: 1e-4
warmup: .1
mask: 0x1F
mode: 0755
time: 1:30
long: 1_000_000
nothing:
tilde: ~
nested:
  - a: 1
    b: [{c: [], d: {}}]
  - - x
    - y
  -
text: |
  two # lines
    kept

folded: >-
  one
  line
anchors: &base
  lr: 0.1
  bs: 8
child:
  <<: *base
  bs: 16
children:
  <<: [*base]
again: *base
7: one
2.5: float
null: nothing
? explicit
: key
"quoted": 'it''s'
multi: one
  two
  three
inf: -.inf
"""


def test_values_equal_safe_load() -> None:
    expected = pyyaml.load(SYNTHETIC, Loader=pyyaml.CSafeLoader)

    document = read(SYNTHETIC)

    assert document.problems == ()
    assert repr(sorted(document.value.items(), key=repr)) == repr(sorted(expected.items(), key=repr))


def test_every_value_has_a_place_and_the_text_says_it() -> None:
    document = read("a: 1\nb:\n  - x\n  - {c: 'd'}\n")
    said = {
        path: (document.text[place.value.start : place.value.end], place.key and place.key.start)
        for path, place in document.places.items()
    }

    assert said == {
        (): ("a: 1\nb:\n  - x\n  - {c: 'd'}", None),
        ("a",): ("1", 0),
        ("b",): ("- x\n  - {c: 'd'}", 5),
        ("b", 0): ("x", None),
        ("b", 1): ("{c: 'd'}", None),
        ("b", 1, "c"): ("'d'", 19),
    }


def test_spans_count_characters_behind_a_byte_order_mark_and_wide_text() -> None:
    (document,) = load("\ufeffé: '🙂'\nb: x\n".encode(), "a.yaml")
    place = document.places[("b",)].value

    assert (place.start, place.line, place.column) == (10, 2, 4)
    assert document.text[place.start : place.end] == "x"
    assert document.bom


def test_a_line_separator_does_not_count_as_a_line() -> None:
    document = read("a: 'x\u2028y'\nb: 1\n")

    assert document.places[("b",)].value.line == 2


def test_a_place_inside_an_alias_is_the_anchors() -> None:
    document = read("a: &x {k: 1}\nb: *x\n")

    assert document.places[("b", "k")] == document.places[("a", "k")]
    assert document.text[slice(*document.places[("b",)].value[:2])] == "*x"
    assert document.aliases == (("b",),)
    assert document.value["a"] is document.value["b"]


def test_an_anchor_is_not_part_of_the_value() -> None:
    document = read("a: &x 5\nb: &y {k: 1}\n")

    assert [document.text[slice(*document.places[path].value[:2])] for path in [("a",), ("b",)]] == ["5", "{k: 1}"]


def test_merged_keys_point_to_where_they_are_written() -> None:
    document = read("a: &x {lr: 1}\nb:\n  <<: *x\n  bs: 2\n")

    assert document.value["b"] == {"lr": 1, "bs": 2}
    assert document.places[("b", "lr")].value.line == 1
    assert document.aliases == ()


def test_a_duplicate_key_names_both_places_and_the_last_one_counts() -> None:
    document = read("a: 1\nb: 2\na: 3\n")
    (problem,) = document.problems

    assert document.value == {"a": 3, "b": 2}
    assert (problem.code, problem.severity, problem.span.line) == ("duplicate-key", "warning", 3)
    assert problem.related is not None and problem.related.line == 1


def test_omegaconf_refuses_duplicate_string_keys() -> None:
    severities = [problem.severity for problem in read("a: 1\na: 3\n1: x\n1: y\n", "omegaconf").problems]

    assert severities == ["error", "warning"]


def test_documents_of_one_file() -> None:
    documents = load(b"a: 1\n---\nb: 2\n--- [\n", "a.yaml")

    assert [document.value for document in documents] == [{"a": 1}, {"b": 2}, None]
    assert [(document.index, document.documents) for document in documents] == [(0, 3), (1, 3), (2, 3)]
    assert only_code(documents[2]) == "syntax"
    assert documents[1].places[("b",)].value.line == 3


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n"])
def test_an_empty_file_has_no_value_and_no_problem(text: str) -> None:
    document = read(text)

    assert (document.value, document.problems) == (None, ())


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("a: [1, 2\n", "syntax", 2, 1),
        ("a:\n\tb: 1\n", "syntax", 2, 1),
        ("a: 'x\n", "syntax", 2, 1),
        ("a: b: c\n", "syntax", 1, 5),
        ("a: @x\n", "syntax", 1, 4),
        ("a: {{ x }}\n", "template", 1, 4),
        ("{% if x %}\n", "template", 1, 1),
        ("? [a]\n: 1\n", "unhashable-key", 1, 3),
        ("a: *x\n", "undefined-alias", 1, 4),
        ("a: &x [*x]\n", "alias-cycle", 1, 8),
        ("a: &x 1\nb: &x 2\n", "duplicate-anchor", 2, 4),
        ("a: {<<: 1}\n", "merge", 1, 9),
        ("a: {<<: [{}, 1]}\n", "merge", 1, 9),
        ("a: 1\0\n", "control-character", 1, 5),
        ("a: 1\x07\n", "control-character", 1, 5),
        ("%YAML 9.9\n---\na: 1\n", "syntax", 1, 1),
        ("[" * 65 + "]" * 65, "too-deep", 1, 65),
        ("- " * 65, "too-deep", 1, 129),
        ("---\na\n" * 101, "too-many-documents", 201, 1),
    ],
)
def test_what_has_no_value_is_located(text: str, code: str, line: int, column: int) -> None:
    document = load(text.encode(), "a.yaml")[-1]
    problem = document.problems[-1]

    assert document.value is None
    assert (problem.code, problem.fatal, problem.span.line, problem.span.column) == (code, True, line, column)


def test_64_levels_are_read() -> None:
    assert read("[" * 64 + "]" * 64).problems == ()


@pytest.mark.parametrize(
    ("text", "code", "value"),
    [
        ("a: !!python/object/apply:os.system [id]", "custom-tag", ["id"]),
        ("a: !include b.yaml", "custom-tag", "b.yaml"),
        ("a: !!int x", "bad-tag", "x"),
        ("a: !!float x", "bad-tag", "x"),
        ("a: !!bool maybe", "bad-tag", "maybe"),
        ("a: 2026-13-45", "impossible-date", "2026-13-45"),
        ("a: " + "9" * 10_000, "huge-integer", "9" * 10_000),
        ("a: 0x_", "bad-number", "0x_"),
        ("a: =", "special-key", "="),
        ("a: <<", "special-key", "<<"),
    ],
)
def test_what_the_consumer_fails_on_is_a_located_problem(text: str, code: str, value: object) -> None:
    document = read(text)
    (problem,) = document.problems

    assert (problem.code, problem.severity, problem.fatal, problem.span.start) == (code, "error", False, 3)
    assert document.value == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!float 5", 5.0),
        ("!!float 4e-5", 4e-5),
        ("!!float '1_0.5'", 10.5),
        ("!!bool 'Yes'", True),
        ("!!bool 'on'", True),
        ("! 5", 5),
    ],
)
def test_standard_tags(text: str, value: object) -> None:
    document = read(f"a: {text}")

    assert (document.value, document.problems) == ({"a": value}, ())
    assert type(document.value["a"]) is type(value)


def test_alias_expansion_is_bounded() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]

    assert only_code(read("\n".join(rows))) == "alias-expansion"


def test_merge_expansion_is_bounded() -> None:
    rows = ["a0: &a0 {" + ", ".join(f"k{i}: {i}" for i in range(50)) + "}"]
    rows += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 10)]

    assert only_code(read("\n".join(rows))) == "alias-expansion"


def test_later_merge_keys_win_and_in_a_list_the_first() -> None:
    """As YAML 1.1 says of a list, and PyYAML up to 6.0.3 does. In PyYAML 6.0.4 (constructor.py, `flatten_mapping`) the
    last mapping of a list wins, unless the key has one character."""
    text = "a: &a {lr: 1, bs: 1}\nb: &b {lr: 2, ga: 2}\nl:\n  <<: [*a, *b]\nm:\n  <<: *a\n  <<: *b\n"

    found = read(text)
    value = found.value

    assert [(one.code, one.severity, one.span.line) for one in found.problems] == [("merge-order", "info", 4)]
    assert not read(text.replace("*b]", "*b]\n  lr: 3")).problems
    assert not read(text.replace("lr: 2", "lr: 1")).problems
    assert value["l"] == {"lr": 1, "bs": 1, "ga": 2}
    assert value["m"] == {"lr": 2, "bs": 1, "ga": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c\n", "makes no sense here"),
        ("a: [1 2]\n[", "a key without ':'"),
        ("a: 'x", "never closed"),
        ("- a\nb: 1\n", "does not line up with the list items"),
        ("!q!x a\n", "an undefined tag"),
        ("%YAML 3.0\n---\na", "an unknown YAML version"),
        ("a: [", "a value is missing here"),
        ("a: {b: 1 c: 2}", "a '{' that is never closed"),
        ("a: [b: c: d]", "a '[' that is never closed"),
        ("a: - b", "a list item cannot start here"),
        ('a: "\\q"', "an unknown escape"),
        ("a: 1\n...\nb: 1\n", "text after the end of the document"),
        ("a: %x", "cannot start with '%'"),
        ("a:\n\t- b", "a tab; YAML is indented with spaces"),
        ("a: |3x\n b", "did not find expected comment or line break"),
        ("a: !!seq {}", "refuses the tag !!seq"),
        ("a: !!int x", "!!int does not fit the value"),
        ("a: !map [1]", "refuses the tag !map"),
        ("a: *y", "*y refers to an anchor that is not defined above it"),
        ("a: 1\na: 2", "'a' is already set on line 1"),
    ],
)
def test_a_problem_says_what_to_do(text: str, words: str) -> None:
    assert words in load(text.encode(), "a.yaml")[-1].problems[0].message
