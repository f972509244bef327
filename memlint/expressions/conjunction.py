"""The form of `and`. Its cheap parts come first: the order changes no result, and a false part ends the evaluation."""

from __future__ import annotations

from typing import Any

Form = list[Any]
# The cost of evaluating a form besides that of its parts, in steps; other forms cost one step.
_COSTS = {"call": 4, "matches": 4, "variable": 16, "any": 32, "all": 32, "any_of": 32, "all_of": 32}


def conjunction(*parts: Form) -> Form:
    return ["and", *sorted(parts, key=_cost)]


def _cost(form: Form) -> int:
    """The approximate cost of evaluating a form, in steps. A variable has a flat cost: its form is not known here."""
    return _COSTS.get(form[0], 1) + sum(_cost(part) for part in form[1:] if isinstance(part, list) and part)
