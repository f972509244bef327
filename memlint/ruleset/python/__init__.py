"""Rules that need Python, one file each: the fields of a rule file in `FIELDS`, and `check`.

To add one, write its module and name it in `MODULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from memlint.expressions.facts import Facts
from memlint.ruleset.python import fragmentation, needless_offload, newest_only, unfilled_auto
from memlint.ruleset.rule import Hit


class PythonRule(Protocol):
    """The names that such a module has."""

    FIELDS: Mapping[str, Any]

    def check(self, facts: Facts) -> Iterable[Hit]:
        """What the rule found in one run."""


MODULES: tuple[PythonRule, ...] = (fragmentation, needless_offload, newest_only, unfilled_auto)
