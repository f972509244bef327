"""Evaluates one rule on one run: its hits, and the finding of each with place, message, severity and confidence."""

from __future__ import annotations

from typing import Any

from memlint.expressions.facts import Facts
from memlint.findings import SEVERITIES, Finding
from memlint.ruleset.places import Finder
from memlint.ruleset.rule import Body, Hit, Rule, compared_packages, may_depend_on_model
from memlint.run import UNKNOWN, Run


def hits_of(rule: Rule, facts: Facts) -> list[Hit]:
    body = rule.body()
    facts.begin(body.variables)
    if rule.check is not None:
        return list(rule.check(facts))
    if body.when is None or not body.when(facts):
        return []
    from memlint.expressions.render import render  # where a rule finds something

    return [Hit(render(body.message, facts), render(body.at, facts), _data(body, facts))]


def _data(body: Body, facts: Facts) -> dict[str, Any]:
    """The values of the rule's variables that are known, for the finding's `data`."""
    values = {name: read(facts) for name, read in body.variables.items()}
    return {name: value for name, value in values.items() if value is not UNKNOWN}


def finding_of(rule: Rule, hit: Hit, run: Run, finder: Finder) -> Finding:
    confidence, severity = _confidence_and_severity(rule, run)
    texts = rule.texts()
    place = finder.first((hit.at, *rule.at) if hit.at else rule.at)
    related = ((finder.find(name), label) for name, label in rule.related)
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=severity,
        message=hit.message + _version_note(texts.applies, hit.message, run),
        location=place,
        related=tuple((other, label) for other, label in related if other is not None and other != place),
        confidence=confidence,
        why=texts.why,
        key=f"{rule.id}:{hit.at}",
        data=hit.data,
        where=_release_condition(texts.applies, run),
    )


def _version_note(applies: str, message: str, run: Run) -> str:
    """ " (from trl 1.0 on)": added to the message of a rule that holds from a release on, if the message does not name
    the release and the one in use is not stated. `applies`: as in `Texts`, "trl >=1.0, peft >=0.19,<0.21"."""
    for package, bounds in (part.split(" ", 1) for part in applies.split(", ") if " " in part):
        lowest = next((bound[2:] for bound in bounds.split(",") if bound.startswith(">=")), "")
        if lowest and lowest not in message and _is_presumed(package, run):
            return f" (from {package} {lowest} on)"
    return ""


def _release_condition(applies: str, run: Run) -> str:
    """ "transformers is 4.45 or newer": of a rule that holds from a release on, where nothing but a key of older ones
    tells which is in use. It may be any up to the newest that takes the key."""
    for package, bounds in (part.split(" ", 1) for part in applies.split(", ") if " " in part):
        lowest = next((bound[2:] for bound in bounds.split(",") if bound.startswith(">=")), "")
        if lowest and "inferred" in _kinds(package, run) <= {"inferred", "default"}:
            return f"{package} is {lowest} or newer"
    return ""


def _is_presumed(package: str, run: Run) -> bool:
    """Whether the version of the package is only a default: neither stated nor pinned."""
    return _kinds(package, run) <= {"default"}


def _kinds(package: str, run: Run) -> set[str]:
    """The kinds of the origins of a package's version."""
    names = (package, *(("framework_version",) if package == run.stack.framework else ()))
    origins = (run.origins.get(f"stack.{name}") for name in names)
    return {one.kind for one in origins if one is not None}


def _confidence_and_severity(rule: Rule, run: Run) -> tuple[str, str]:
    """(confidence, severity) of a finding. Both are one step lower if the model is inferred and the rule may depend on
    it. So are they for a rule with `severities` that compares a version which is not stated."""
    confidence = rule.confidence
    if (
        rule.severities
        and confidence == "high"
        and any(_is_presumed(one, run) for one in compared_packages(rule.body()))
    ):
        confidence = "medium"
    origin = run.origins.get("model.architecture")
    inferred = origin is not None and origin.kind == "inferred"
    if inferred and confidence == "high" and may_depend_on_model(rule.body()):
        confidence = "medium"
    if confidence in rule.severities:
        return confidence, rule.severities[confidence]
    lowered = confidence != rule.confidence and rule.severity == "error"
    return confidence, "warning" if lowered else rule.severity


def most_severe(rule: Rule) -> int:
    """Index in SEVERITIES of the most severe finding that a rule may give, whatever it is sure of."""
    return max(map(SEVERITIES.index, (rule.severity, *rule.severities.values())))
