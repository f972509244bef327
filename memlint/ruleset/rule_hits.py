"""What one rule says of one run: where it holds, in which words, how severe, how sure."""

from __future__ import annotations

from typing import Any

from memlint.expressions.facts import Facts
from memlint.expressions.render import render
from memlint.findings import SEVERITIES, Finding
from memlint.ruleset.places import Finder
from memlint.ruleset.rule import Body, Hit, Rule, asks_for, may_depend_on_model
from memlint.run import UNKNOWN, Run


def hits_of(rule: Rule, facts: Facts) -> list[Hit]:
    body = rule.body()
    facts.begin(body.variables)
    if rule.check is not None:
        return list(rule.check(facts))
    if body.when is None or body.when(facts) is not True:
        return []
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
        message=hit.message + _since(texts.applies, hit.message, run),
        location=place,
        related=tuple((other, label) for other, label in related if other is not None and other != place),
        confidence=confidence,
        why=texts.why,
        key=f"{rule.id}:{hit.at}",
        data=hit.data,
    )


def _since(applies: str, message: str, run: Run) -> str:
    """The words "(from trl 1.0 on)", where a rule holds from a release on, its message names none, and nobody says
    which one is in use. `applies`: as in `Texts`, "trl >=1.0, peft >=0.19,<0.21"."""
    for package, bounds in (part.split(" ", 1) for part in applies.split(", ") if " " in part):
        lowest = next((bound[2:] for bound in bounds.split(",") if bound.startswith(">=")), "")
        if lowest and lowest not in message and _is_presumed(package, run):
            return f" (from {package} {lowest} on)"
    return ""


def _is_presumed(package: str, run: Run) -> bool:
    """Whether nobody states which release of the package is in use."""
    names = (package, *(("framework_version",) if package == run.stack.framework else ()))
    origins = (run.origins.get(f"stack.{name}") for name in names)
    return all(one is None or one.kind == "default" for one in origins)


def _confidence_and_severity(rule: Rule, run: Run) -> tuple[str, str]:
    """(confidence, severity). Both are one step lower if the model is inferred and the rule may depend on it; for a
    rule with severities by confidence also if it asks for a release and nobody states which is in use."""
    confidence = rule.confidence
    if rule.severities and confidence == "high" and any(_is_presumed(one, run) for one in asks_for(rule.body())):
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
