"""A rule as the engine uses it, and the error for one that cannot be used.

docs/rules-format.md is the page for those who write rules; rule_file.py turns their files into these values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions.build import Form, build, build_condition
from memlint.expressions.facts import Evaluate, Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.expressions.render import Template

PROFILES = ("default", "strict", "ci")
# A necessary condition of a rule, for the index. ("key", section, key): the section has the key. ("said",
# "section/key", value): the file sets the key to value. ("field", name, value), ("fact", name, value): the field or
# fact has this value. ("unlike", name, value): the field has another value.
Atom = tuple[str, str, Any]


class RuleError(Exception):
    """A rule that cannot be used: exit code 2, never a finding. `path`, `line` and `column` are of the rule file."""

    def __init__(self, path: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{path}:{line}:{column}: {message}")
        self.path = path
        self.line = line
        self.column = column
        self.message = message


class Compiled:
    """A checked expression; its closure is built at the first call."""

    __slots__ = ("_evaluate", "form")

    def __init__(self, form: Form) -> None:
        self.form = form
        self._evaluate: Evaluate | None = None

    def __call__(self, facts: Facts) -> Any:
        evaluate = self._evaluate
        if evaluate is None:
            evaluate = self._evaluate = self._build()
        return evaluate(facts)

    def _build(self) -> Evaluate:
        return build(self.form)


class Condition(Compiled):
    """A checked expression of which nothing but whether it is True is asked: True or False."""

    __slots__ = ()

    def _build(self) -> Evaluate:
        return build_condition(self.form)


class FixTemplate(NamedTuple):
    """A fix as the rule file defines it. Values are forms (compiled expressions).

    `changes`: field of the run -> value. `keys`: (action, section, pointer, value) with the actions of
    `findings.Edit`. `when`: the fix is offered only if this is True.
    """

    title: Template
    changes: Mapping[str, Form] = {}
    keys: tuple[tuple[str, str, tuple[str, ...], Form | None], ...] = ()
    safe: bool = False
    speed: float = 1.0
    quality: str = "none"
    note: str = ""
    when: Condition | None = None


class Hit(NamedTuple):
    """One result of a rule written in Python. `at` names a field of the run or a key, as in rule files."""

    message: str
    at: str
    data: Mapping[str, Any] = {}


Check = Callable[[Facts], Iterable[Hit]]


class Texts(NamedTuple):
    """The texts of a rule's page, read only when a page or report needs them."""

    title: str
    why: str = ""
    sources: tuple[str, ...] = ()
    applies: str = ""
    when: str = ""


class Body(NamedTuple):
    """The compiled part of a rule: condition, variables, message. `when` is None for a rule written in Python.

    `at`: an expression that gives the place to point to; it is tried before the names in `Rule.at`. Empty if none.
    """

    when: Condition | None = None
    message: Template = ()
    variables: Mapping[str, Compiled] = {}
    at: Template = ()


class Rule(NamedTuple):
    """A rule. `formats`, `purposes`: what it applies to (empty: all). `severities`: confidence -> severity, or empty.

    `at`: the fields or keys to point to; the first that has a place in a file is taken. `plan`: the planner looks for
    fixes. `folds_into`: rules whose finding on the same run shows this rule's finding as one of its causes.
    `needs`: the rule can only be true if at least one of these holds (None: unknown, it is always evaluated).
    """

    id: str
    name: str
    severity: str
    at: tuple[str, ...]
    body: Callable[[], Body] = Body
    needs: tuple[Atom, ...] | None = None
    confidence: str = "high"
    severities: Mapping[str, str] = {}
    formats: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ("train",)
    profiles: tuple[str, ...] = PROFILES
    preview: bool = False
    related: tuple[tuple[str, str], ...] = ()
    folds_into: tuple[str, ...] = ()
    fixes: Callable[[], tuple[FixTemplate, ...]] = tuple
    plan: bool = False
    texts: Callable[[], Texts] = lambda: Texts("")
    path: str = ""  # the rule's own file
    check: Check | None = None  # of a rule written in Python

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


_OF_THE_RUN = frozenset(("field", "fact", "term", "phase", "origin"))
_OF_THE_LAUNCH = ("purpose", "format", "path", "batch.", "parallelism.")  # fields that do not depend on the model


def may_depend_on_model(body: Body) -> bool:
    """Whether a rule reads anything that may depend on the model: more than keys, versions and the launch."""
    forms = [body.when, *body.variables.values()]
    return any(form is None or _reads_model(form.form) for form in forms)


def compared_packages(body: Body) -> frozenset[str]:
    """The packages whose version a rule's conditions compare."""
    forms = [body.when, *body.variables.values()]
    return frozenset(name for form in forms if form is not None for name in _packages(form.form))


def _packages(form: Form) -> Iterator[str]:
    if form[0] == "package_version":
        yield form[1]
    for part in form[1:]:
        if isinstance(part, list) and part:
            yield from _packages(part)


def _reads_model(form: Form) -> bool:
    if form[0] == "value" or (form[0] == "field" and form[1].startswith(_OF_THE_LAUNCH)):
        return False
    return form[0] in _OF_THE_RUN or any(_reads_model(part) for part in form[1:] if isinstance(part, list) and part)


def concerns_format(rule: Rule, format_name: str) -> bool:
    """Whether a rule applies to runs of this format."""
    return not rule.formats or format_name in rule.formats


def concerns(rule: Rule, format_name: str, purpose: str) -> bool:
    """Whether a rule applies to runs of this format and purpose."""
    return concerns_format(rule, format_name) and (not rule.purposes or purpose in rule.purposes)
