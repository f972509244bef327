"""ruamel.yaml's view of what was written: comments stay with their keys."""

from __future__ import annotations

import pytest

from memlint.fixes.edits.second_opinion import disagreements

OLD = b"# about a\na: 1  # one\n\n# about b\nb:\n  c: 2  # two\n  # about d\n  d: [1, 2]\n"


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        OLD.replace(b"c: 2", b"c: 3"),
        OLD + b"e: 5\n",
        OLD.replace(b"\n\n# about b", b"\ne: 5\n\n# about b"),
        OLD.replace(b"a: 1  # one\n", b""),
        OLD.replace(b"  c: 2  # two\n", b"  # two\n"),
    ],
)
def test_comments_that_stay_are_fine(new: bytes) -> None:
    assert disagreements(OLD, new) == ()


@pytest.mark.parametrize(
    "new",
    [
        OLD.replace(b"# about b\nb:", b"# about b\ne: 5\nb:"),
        OLD.replace(b"  # one", b""),
        OLD.replace(b"c: 2  # two\n", b"c: 2\n  # two\n"),
        OLD.replace(b"  # about d\n  d: [1, 2]\n", b"  d: [1, 2]\n  # about d\n"),
        OLD.replace(b"[1, 2]", b"[1, 2"),
    ],
)
def test_comments_that_left_their_key_are_told(new: bytes) -> None:
    assert disagreements(OLD, new)


@pytest.mark.parametrize("old", [b"a: [\n", b"\xff\xfe", b"a: 1\na: 2\n", b"", b"just text"])
def test_there_is_no_opinion_of_what_it_cannot_read(old: bytes) -> None:
    assert disagreements(old, b"a: 1\n") == ()
