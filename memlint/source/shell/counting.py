"""The values that the counter of `for ((i=0; i<n; i++))` takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from memlint._record import NamedTuple
from memlint.source.shell.expansion import Expander
from memlint.source.shell.state import State
from memlint.source.shell.text import Text, known, literal
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

# `i++`, `--i`, `i+=2`, `i = i * 2`: the counter, and what it becomes.
_STEP = re.compile(
    r"\s*(?:(?P<before>\+\+|--)\s*(?P<a>\w+)|(?P<b>\w+)\s*(?P<after>\+\+|--)"
    r"|(?P<c>\w+)\s*(?P<operator>[-+*/]?)=(?!=)(?P<by>.+))\s*$",
    re.DOTALL,
)


class Counter(NamedTuple):
    """A counter: `name`, the expression of its `first` value, the `condition`, and the expression of the `next` one."""

    name: str
    first: Node
    condition: Node
    next: str


def counter_of(loop: Node, source: Source) -> Counter | None:
    """The counter of a loop; None if it has none, or several."""
    parts = {name: loop.children_by_field_name(name) for name in ("initializer", "condition", "update")}
    if any(len(found) != 1 for found in parts.values()):
        return None
    (start,), (condition,), (update,) = parts.values()
    name, first = start.child_by_field_name("name"), start.child_by_field_name("value")
    step = _STEP.match(source.of(update))
    if name is None or first is None or step is None:
        return None
    counter = source.of(name)
    following = _following(step)
    return Counter(counter, first, condition, following) if counter == (step["a"] or step["b"] or step["c"]) else None


def _following(step: re.Match[str]) -> str:
    if step["c"] is None:
        return f"{step['a'] or step['b']} {(step['before'] or step['after'])[0]} 1"
    return f"{step['c']} {step['operator']} ({step['by']})" if step["operator"] else step["by"]


def names_set(loop: Node, source: Source) -> list[str]:
    """The variables that a loop's head sets."""
    heads = ("variable_assignment", "assignment_expression", "binary_expression")
    names = (source.of(child).partition("=")[0].strip() for child in loop.named_children if child.type in heads)
    return [name for name in names if name.isidentifier()]


def values(counter: Counter, source: Source, state: State, expander: Expander, most: int) -> list[Text] | None:
    """The values that a counter takes, up to `most`, and the one that ends the loop; None if there are more, or if one
    is not known."""
    way, found = state.copy(), list[Text]()
    way.set(counter.name, expander.arithmetic(counter.first, source, way))
    while len(found) <= most:
        value = known(way.variables[counter.name].value)
        goes_on = known(expander.arithmetic(counter.condition, source, way))
        if value is None or goes_on is None:
            return None
        found.append(literal(value))
        if goes_on == "0":
            return found
        way.set(counter.name, expander.computed(literal(counter.next), way))
    return None
