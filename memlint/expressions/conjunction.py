"""The form of `and`. Its cheap parts come first: the order changes no result, and a false part ends the evaluation."""

from __future__ import annotations

from typing import Any

Form = list[Any]
# The cost of evaluating a form besides that of its parts, in steps; other forms cost one step.
_COSTS = {"call": 4, "matches": 4, "variable": 16, "any": 32, "all": 32, "any_of": 32, "all_of": 32}
# Figures of the estimate, and what else is counted. The first of them to be read takes longer than all else.
_FIGURE = 128
_FIGURES = ("term", "phase")
_FACTS_OF_FIGURES = ("estimate.", "model.parameters", "model.trainable_parameters", "model.trains_nothing")
_FACTS_WITHOUT = ("estimate.verdict", "estimate.budget_bytes")  # known of a run without a card before it is estimated


def conjunction(*parts: Form) -> Form:
    return ["and", *sorted(parts, key=_cost)]


def _cost(form: Form) -> int:
    """The approximate cost of evaluating a form, in steps. A variable has a flat cost: its form is not known here."""
    own = _FIGURE if is_figure(form) else _COSTS.get(form[0], 1)
    return own + sum(_cost(part) for part in form[1:] if isinstance(part, list) and part)


def is_figure(form: Form) -> bool:
    """Whether a form is a figure of the estimate, for which the run may have to be estimated."""
    if form[0] != "fact":
        return form[0] in _FIGURES
    return form[1].startswith(_FACTS_OF_FIGURES) and form[1] not in _FACTS_WITHOUT
