"""Redirections of a command's input and output: `<<< word`, `<< EOF`, `> file`, `>> file`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.source.shell.expansion import Expander
from memlint.source.shell.state import State, path_in
from memlint.source.shell.text import Text, joined, literal
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node


def given_text(expander: Expander, redirect: Node, source: Source, state: State) -> Text | None:
    """The text of a here-string or here-document; None for another redirection."""
    if redirect.type == "herestring_redirect":
        return joined((expander.text(redirect.named_children[-1], source, state), literal("\n")))
    body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
    start = next((child for child in redirect.children if child.type == "heredoc_start"), None)
    if body is None or start is None:
        return None
    return expander.heredoc(body, source, state, source.of(start)[:1] in "'\"\\")


def written_file(
    expander: Expander, redirects: Sequence[Node], source: Source, state: State
) -> tuple[str, bool] | None:
    """(absolute path of the file that standard output goes to, whether it is appended); None if it goes to no file."""
    files = (_written_by(expander, one, source, state) for one in _file_redirects(redirects))
    return next((found for found in files if found is not None), None)


def leaves_output(redirects: Sequence[Node], source: Source) -> bool:
    """Whether what is printed goes nowhere that the script reads: `echo ... >&2`, `> /dev/null`."""
    return any(_leaves(one, source) for one in _file_redirects(redirects))


def _leaves(redirect: Node, source: Source) -> bool:
    operator, target, is_output = _target(redirect, source)
    if operator == ">&" and is_output:
        return target == "2"
    leaves = is_output if operator in (">", ">>") else operator in ("&>", "&>>")
    return leaves and target in _NOWHERE


_NOWHERE = ("/dev/null", "/dev/stderr", "/dev/tty")


def _target(redirect: Node, source: Source) -> tuple[str, str, bool]:
    """(`>`, the word behind it, whether it is standard output that goes there)."""
    operator = next((child.type for child in redirect.children if not child.is_named), "")
    target = redirect.child_by_field_name("destination")
    descriptor = redirect.child_by_field_name("descriptor")
    return operator, source.of(target) if target is not None else "", descriptor is None or source.of(descriptor) == "1"


def _file_redirects(redirects: Sequence[Node]) -> Iterator[Node]:
    """The redirections to files. In the tree, one may be inside that of a here-document (`cat << EOF > file`)."""
    for redirect in redirects:
        if redirect.type == "file_redirect":
            yield redirect
        yield from (child for child in redirect.children if child.type == "file_redirect")


def _written_by(expander: Expander, redirect: Node, source: Source, state: State) -> tuple[str, bool] | None:
    operator = next((child.type for child in redirect.children if not child.is_named), "")
    target = redirect.child_by_field_name("destination")
    descriptor = redirect.child_by_field_name("descriptor")
    if operator not in (">", ">>") or target is None or (descriptor is not None and source.of(descriptor) != "1"):
        return None
    path = path_in(state.folder, expander.text(target, source, state))
    return (path, operator == ">>") if path and not path.startswith("/dev/") else None
