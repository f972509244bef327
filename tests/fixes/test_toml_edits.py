"""Edits of a TOML configuration file that a script of the repository reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.edits.toml import place
from memlint.source import load
from memlint.source.document import Path

TEXT = (
    "# head\nseed = 1\n\n[model]\nname = 'gpt2'  # small\n\n  [model.lora]\n  r = 8\n\n"
    "[train]\nargs.batch = 4\nlist = [1]\n"
)


def edited(text: str, path: Path, value: object) -> str:
    (document,) = load(text.encode(), "a.toml")
    return apply(text, (place(document, Edit("a.toml", path, "set", value)),))


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("seed",), 2, "seed = 1", "seed = 2"),
        (("model", "name"), "a/b", "'gpt2'", "'a/b'"),
        (("model", "name"), "it's", "'gpt2'", '"it\'s"'),
        (("model", "lora", "r"), 16, "r = 8", "r = 16"),
        (("train", "args", "batch"), 1, "batch = 4", "batch = 1"),
        (("model", "lora", "alpha"), 2e-5, "  r = 8\n", "  r = 8\n  alpha = 2e-05\n"),
        (("train", "args", "bf16"), True, "batch = 4\n", "batch = 4\nargs.bf16 = true\n"),
        (("train", "optim"), "adamw_8bit", "list = [1]\n", 'list = [1]\noptim = "adamw_8bit"\n'),
        (("two words",), 3, "seed = 1\n", 'seed = 1\n"two words" = 3\n'),
    ],
)
def test_one_line_changes(path: Path, value: object, old: str, new: str) -> None:
    changed = edited(TEXT, path, value)
    assert changed == TEXT.replace(old, new, 1)
    (document,) = load(changed.encode(), "a.toml")
    found = document.value
    for part in path:
        found = found[part]
    assert found == value


@pytest.mark.parametrize("path", [("train", "list"), ("train", "list", 0), ("model",), ("other", "x"), ("seed", "x")])
def test_what_has_no_line_of_its_own_is_refused(path: Path) -> None:
    with pytest.raises(CannotEdit):
        edited(TEXT, path, 3)


@pytest.mark.parametrize(
    ("text", "lead"), [("", ""), ("a = 1", "a = 1\n\n"), ("a = 1\n", "a = 1\n\n"), ("a = 1\n\n", "a = 1\n\n")]
)
def test_a_new_table_stands_at_the_end(text: str, lead: str) -> None:
    assert edited(text, ("train",), {"bf16": True, "two words": 3}) == f'{lead}[train]\nbf16 = true\n"two words" = 3\n'


def test_a_file_that_is_checked_by_itself_is_edited_too() -> None:
    (document,) = load(TEXT.encode(), "a.toml")
    found = patches(document, (Edit("a.toml", ("model", "lora", "r"), "set", 16),))
    assert apply(TEXT, found) == TEXT.replace("r = 8", "r = 16")


def test_a_table_without_keys_gets_one_behind_its_header() -> None:
    assert edited("[train]\r\n[model]\r\n", ("train", "bf16"), True) == "[train]\r\nbf16 = true\r\n[model]\r\n"


@given(
    st.one_of(
        st.integers(), st.booleans(), st.floats(allow_nan=False), st.text(st.characters(exclude_characters="\x7f"))
    )
)
def test_a_value_reads_back_as_it_was_written(value: object) -> None:
    try:
        changed = edited("a = 'x' # c\n", ("a",), value)
    except UnicodeEncodeError:
        return
    (document,) = load(changed.encode("utf-8", "surrogatepass"), "a.toml")
    assert document.problems or document.value["a"] == value
