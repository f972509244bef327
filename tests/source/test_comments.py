from __future__ import annotations

import pytest

from memlint.source import comments, in_dialect, load

TEXT = """\
# first
a: 'x # no' # after quotes
b: x#y  #   after plain
c: |  # in the header
  # in the text
d: >-
  folded # text
# between
e: [1, # in a list
  2]
"f#g": 1
# last"""
EXPECTED = ["first", "after quotes", "after plain", "in the header", "between", "in a list", "last"]


def texts(text: str, path: str = "a.yaml") -> list[str]:
    return [comment.text for comment in comments(load(text.encode(), path)[0])]


@pytest.mark.parametrize("suffix", ["", "\n---\nz: 1", "\nz: &x 1\ny: *x", "\nz: {<<: {q: 1}}", "\na: 1"])
def test_comments_are_told_from_text(suffix: str) -> None:
    assert texts(TEXT + suffix) == EXPECTED


@pytest.mark.parametrize("word", ["after", "in the", "quotes", "f#g"])
def test_comments_with_a_word_in_them(word: str) -> None:
    document = load(TEXT.encode(), "a.yaml")[0]
    assert comments(document, word) == tuple(one for one in comments(document) if word in one.text)


def test_comments_are_the_same_in_every_dialect_and_time() -> None:
    documents = [
        load((TEXT + more).encode(), "a.yaml")[0] for more in ("", "\n# more", "\nk: 1_0 # ten", "\n---\nz: 1")
    ]
    for document in (*documents, *reversed(documents)):
        fresh = comments(load(document.text.encode(), "a.yaml")[0])
        assert comments(document) == comments(in_dialect(document, "omegaconf")) == fresh


@pytest.mark.parametrize("dialect", ["yaml11", "yaml12", "omegaconf", "json"])
def test_a_document_is_the_same_in_a_dialect_whenever_it_is_asked_for(dialect: str) -> None:
    documents = [load(text.encode(), "a.yaml")[0] for text in ("a: 1e-5", "a: 1_0\nb: on", "on: 1", "a: &x 0o7\nb: *x")]
    for document in (*documents, *documents):
        again = in_dialect(document, dialect)
        fresh = in_dialect(load(document.text.encode(), "a.yaml")[0], dialect)
        assert again is in_dialect(document, dialect)
        assert (again.value, again.problems, again.dialect) == (fresh.value, fresh.problems, fresh.dialect)


def test_comments_are_at_their_lines_and_columns() -> None:
    found = comments(load(TEXT.encode(), "a.yaml")[0])

    assert [(comment.span.line, comment.span.column, comment.own_line) for comment in found] == [
        (1, 1, True), (2, 13, False), (3, 9, False), (4, 7, False), (8, 1, True), (9, 8, False), (12, 1, True),
    ]  # fmt: skip
    assert all(TEXT[comment.span.start] == "#" for comment in found)


def test_comments_before_a_syntax_error() -> None:
    assert texts("# one\na: 1 # two\nb: [\n# three\n")[0] == "one"


def test_a_dropped_duplicate_hides_its_text() -> None:
    assert texts("a: '# no'\na: 2 # yes\n") == ["yes"]


def test_json_has_none() -> None:
    assert texts('{"a": "# no"} # no', "a.json") == []


def test_crlf_is_not_part_of_a_comment() -> None:
    assert texts("a: 1 # one\r\nb: 2\r\n") == ["one"]
