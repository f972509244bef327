"""Reads the branches of `if` and `case` from the syntax tree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlint.source.shell.state import State
from memlint.source.shell.text import Text, literal
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node


def if_branches(node: Node) -> list[tuple[list[Node], list[Node]]]:
    """(condition, body) of each branch of an `if`; the condition of `else` is empty."""
    found: list[tuple[list[Node], list[Node]]] = [([], [])]
    in_body = False
    for child in node.children:
        if child.type == "elif_clause":
            found += if_branches(child)
        elif child.type == "else_clause":
            found.append(([], [one for one in child.children if one.is_named]))
        elif child.type == "then":
            in_body = True
        elif child.is_named:
            found[0][in_body].append(child)
    return found


def case_body(item: Node | None) -> list[Node]:
    """The statements after a pattern of `case`."""
    if item is None:
        return []
    values = {one.id for one in item.children_by_field_name("value")}
    return [child for child in item.children if child.is_named and child.id not in values]


def bind_case(value: Text, item: Node, source: Source, state: State) -> None:
    """Sets the variable in a branch of `case`: MODE is "train" in the branch `train)` of `case "$MODE"`."""
    patterns = item.children_by_field_name("value")
    name = value[0].text[2:-1] if len(value) == 1 and value[0].unknown else ""
    text = source.of(patterns[0]) if len(patterns) == 1 else "*"
    if name.isidentifier() and re.fullmatch(r"[\w.-]+", text):
        state.set(name, literal(text))
