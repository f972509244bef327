"""Values of a program as texts of a shell."""

from __future__ import annotations

from memlint.repository.scripts.in_python.texts import ProgramFile, command_text, exported, word, words
from memlint.source.document import Span
from memlint.source.python.values import Either, External, Items, Known, Table, Undetermined, ValueSource
from memlint.source.shell.text import shown, why_unknown

FILE = ProgramFile("/repo/a.py", "a.py", 'x = "--lr"')
PLACED = Known("--lr", ValueSource("a.py", Span(4, 10, 1, 5, 1, 11), "literal"))


def test_a_word_is_quoted_and_placed() -> None:
    (piece,) = word(PLACED, FILE)

    assert piece.at is not None and FILE.text[piece.at.start : piece.at.end] == "--lr"
    assert shown(word(Known("a b"), FILE)) == "'a b'"
    assert word(PLACED._replace(source=ValueSource("other.py", PLACED.source.span)), FILE)[0].at is None
    assert shown(word(External("sys.executable"), FILE)) == "python"


def test_the_parts_of_a_text_are_known_where_the_program_says_them() -> None:
    text = Undetermined("a text", parts=(Known("--nproc="), Undetermined("nobody says it"), Known(" --lr 1")))

    assert shown(command_text(text, FILE)).startswith("--nproc=UNKNOWN")
    assert why_unknown(command_text(text, FILE)) == "nobody says it"


def test_lists_that_depend_on_a_condition_agree_on_their_ends() -> None:
    short, long = Items([Known("a"), Known("z")]), Items([Known("a"), Known("b"), Known("z")])

    assert shown(words(Either((short, long), "a condition"), FILE)) == "a UNKNOWN z "
    assert shown(words(Items([Known("a")], is_open=True), FILE)) == "a UNKNOWN "


def test_variables_are_exported() -> None:
    assert shown(exported(Table({"A": Known("b c"), "no name": Known("d")}), FILE)) == "export A='b c'\n"
    assert exported(None, FILE) == ()
