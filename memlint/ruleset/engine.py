"""Analyses one document: recognises its format, parses it into runs, estimates them and applies the rules.

It reads no files and prints nothing. An exception becomes a finding (MEM000) on the file, and the other files go on.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import TracebackType
from typing import Any

import memlint.plugin_registry as extensions
from memlint._record import NamedTuple
from memlint.expressions.facts import Facts, Under
from memlint.expressions.render import render
from memlint.findings import Finding, Location
from memlint.formats import every, recognise
from memlint.formats.base import Context, Format, Issue, Parsed, Recognition
from memlint.formats.fields import value_at
from memlint.memory.estimate import estimate as closed_form
from memlint.memory.values import Estimate, UnknownField
from memlint.repository.launch.apply import advice, at_gpus, is_in_config, with_launch_command, with_launch_origin
from memlint.repository.launch.missing_engine_file import with_stage_readings
from memlint.repository.launch.unknown_launcher import with_launcher_readings
from memlint.ruleset.format_findings import issue_findings
from memlint.ruleset.index import Index
from memlint.ruleset.places import Finder, location
from memlint.ruleset.reads import Read, RunFacts, changed, reads
from memlint.ruleset.release_reading import with_release_readings
from memlint.ruleset.rule import Body, Hit, Rule, asks_for, concerns, may_depend_on_model
from memlint.ruleset.rule_fixes import FixContext, fixes_of
from memlint.ruleset.source_findings import problem_findings, template_finding
from memlint.run import UNKNOWN, Run, Stack
from memlint.source import in_dialect
from memlint.source.document import Document

INTERNAL_ERROR = "MEM000"
MISSING_FILE = "REF001"
Host = tuple[int, str]  # the index of a run, and a rule with a finding on it


class Found(NamedTuple):
    """A finding, the index of its run (-1: the whole file), and whether the planner should look for fixes."""

    finding: Finding
    run: int = -1
    plan: bool = False


class Analysis(NamedTuple):
    """The result for one document. `format`: None if no format recognises it. `estimates`: one per run.

    `is_unjudged`: a script reads the file by itself, so no fix of it is safe. `hits`: what rules said, before any of it
    was left out.
    """

    document: Document
    format: Format | None
    recognition: Recognition | None
    parsed: Parsed | None
    estimates: tuple[Estimate, ...]
    found: tuple[Found, ...]
    is_unjudged: bool = False
    hits: tuple[Found, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(found.finding for found in self.found)

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.parsed.runs if self.parsed else ()


# Analyses the same file again, with these contents by path in place of what the files hold.
Reanalyse = Callable[[Mapping[str, bytes]], Analysis]


class Judged(NamedTuple):
    """An analysis with every rule that plans are judged by, and a function that repeats it under other contents of
    files."""

    analysis: Analysis
    reanalyse: Reanalyse


class Engine:
    """Applies a set of rules. `estimator`: estimates a run; by default the closed form."""

    __slots__ = ("_by_id", "_indices", "_reads", "estimator", "folds_into", "rules")

    def __init__(self, rules: tuple[Rule, ...], estimator: Callable[[Run], Estimate] = closed_form) -> None:
        self.rules = rules
        self.estimator = estimator
        self.folds_into = {rule.id: rule.folds_into for rule in rules if rule.folds_into}
        self._indices: dict[tuple[str, str], Index] = {}  # by format and purpose: the rules that concern them
        self._by_id = {rule.id: rule for rule in rules}
        self._reads: dict[str, frozenset[Read]] = {}  # by rule, of those that were asked for

    def analyse(
        self,
        document: Document,
        context: Context,
        format_name: str = "",
        fixes: bool = True,
        before: Analysis | None = None,
    ) -> Analysis:
        """Analyses one document; never raises.

        `format_name`: the format to use (default: recognised by its keys). `fixes`: whether findings carry the fixes
        that their rules define. `before`: the analysis of the document before a change; rules that read nothing that
        changed are not asked again, and their findings stay where they were.
        """
        try:
            return self._analyse(document, context, format_name, fixes, before)
        except Exception as error:
            found = Found(internal_error(location(document, ()), error, "while it read this file"))
            return Analysis(document, None, None, None, (), (found,))

    def _analyse(
        self,
        document: Document,
        context: Context,
        format_name: str,
        fixes: bool,
        before: Analysis | None,
    ) -> Analysis:
        document = at_gpus(document, context)
        recognised = _recognise(document, format_name)
        follows = recognised is not None and getattr(recognised[0], "RESOLVES_REFERENCES", False)
        template = template_finding(document, follows) if recognised or document.problems else None
        if recognised is None:
            told = [template] if template else problem_findings(document)
            return Analysis(document, None, None, None, (), _sorted_once(map(Found, told)))
        format_, recognition = recognised
        dialect = getattr(format_, "dialect", None)
        document = in_dialect(document, dialect(context) if dialect else format_.DIALECT)
        launched = with_launch_command(document, format_.NAME, context)
        context = launched.context
        parsed = with_launch_origin(format_.parse(document, context), launched.launch)
        parsed = with_launcher_readings(parsed, format_.parse, document, context)
        parsed = with_stage_readings(parsed, format_.parse, document, context)
        found = [Found(finding) for part in parsed.documents for finding in problem_findings(part)]
        estimates = tuple(self._estimate(run, document, found) for run in parsed.runs)
        if any(one.verdict == "out_of_memory" for one in estimates):
            parsed = with_release_readings(parsed, estimates, format_.parse, context)
            estimates = tuple(self._estimate(run, document, found) for run in parsed.runs)
        found.extend(map(Found, issue_findings(parsed)))
        hits: list[Found] = []
        for index, estimate in enumerate(estimates):
            under = self._estimate_under(format_, document, context, index, parsed.runs[index])
            facts = Facts(parsed.runs[index], estimate, parsed.raw, under, cache(partial(advice, document, launched)))
            hits.extend(self._apply_rules(format_, parsed, index, facts, fixes, before))
        found.extend(hits)
        parsed, found = _with_files(parsed, document, found)
        found = [item._replace(finding=_in_words(item.finding, document)) for item in found]
        if (
            getattr(format_, "OF_ANY_SCRIPT", False)
            and document.start is not None
            and document.start.program.is_foreign
        ):
            found = [item._replace(finding=_if_handed_on(item.finding, document)) for item in found]
        if template is not None:
            return Analysis(document, format_, recognition, parsed, estimates, (Found(template),))
        if launched.launch is not None:
            found = [item for item in found if is_in_config(item.finding, document)]
        found = _without_skipped(format_, document, context, found)
        found = [item for item in found if not _is_programs_own(item.finding, parsed, context)]
        note = _unjudged(format_, document, context) if found else None
        if note is not None:
            told = issue_findings(parsed._replace(issues=(note,)))
            found = [*_of_any_reader(format_, document, found), *map(Found, told)]
        shown = _sorted_once(found)
        return Analysis(document, format_, recognition, parsed, estimates, shown, note is not None, tuple(hits))

    def _candidate_rules(self, facts: Facts, format_name: str) -> Iterable[Rule]:
        """The rules that the index cannot exclude for this run."""
        kind = (format_name, facts.run.purpose)
        if kind not in self._indices:
            self._indices[kind] = Index(rule for rule in self.rules if concerns(rule, *kind))
        return self._indices[kind].candidates(facts)

    def _estimate(self, run: Run, document: Document, found: list[Found]) -> Estimate:
        """The estimate of a run. If the estimator fails, an unknown one, so that other rules still run."""
        try:
            return self.estimator(run)
        except Exception as error:
            found.append(Found(internal_error(location(document, ()), error, "while it estimated this run")))
            unknown = UnknownField("estimate", f"memlint's estimator failed: {type(error).__name__}")
            return Estimate((), "", None, None, None, None, None, None, "unknown", unknown=(unknown,))

    def _estimate_under(self, format_: Format, document: Document, context: Context, index: int, run: Run) -> Under:
        """A function that estimates the run under other framework versions."""

        def under(versions: Mapping[str, tuple[int, ...]]) -> Estimate | None:
            reads_releases = getattr(format_, "reads_releases", None)
            if reads_releases is not None and not reads_releases(run):
                return self.estimator(run._replace(stack=_stack_at(run.stack, versions)))
            reparsed = format_.parse(document, context._replace(versions={**context.versions, **versions}))
            return self.estimator(reparsed.runs[index]) if index < len(reparsed.runs) else None

        return under

    def _apply_rules(
        self, format_: Format, parsed: Parsed, index: int, facts: Facts, fixes: bool, before: Analysis | None
    ) -> Iterable[Found]:
        run, estimate = facts.run, facts.estimate
        assert estimate is not None  # an unknown one, where there is none
        fix_context = FixContext(format_, parsed, facts, estimate, self.estimator)
        finder = Finder(parsed, run)
        rules = self._candidate_rules(facts, parsed.format)
        if before is not None and _is_same_run(before, format_, parsed, index):
            differing = changed(
                RunFacts(before.runs[index], before.estimates[index], before.parsed.raw if before.parsed else {}),
                RunFacts(run, estimate, parsed.raw),
            )
            rules = [rule for rule in rules if self._reads_any(rule, differing)]
            yield from (one for one in before.hits if one.run == index and not self._is_asked_again(one, differing))
        for rule in rules:
            found: list[Found] = []
            try:
                found.extend(Found(_finding(rule, hit, run, finder), index, rule.plan) for hit in _hits(rule, facts))
                if fixes:
                    found = [item._replace(finding=_with_fixes(item.finding, rule, fix_context)) for item in found]
            except Exception as error:
                what = f"while rule {rule.id} ({rule.path}) looked at this file"
                at_fault = "a plug-in" if rule in extensions.rules else "memlint"
                found.append(Found(internal_error(location(parsed.documents[0], ()), error, what, at_fault), index))
            yield from found

    def _reads_any(self, rule: Rule, differing: frozenset[Read]) -> bool:
        found = self._reads.get(rule.id)
        if found is None:
            found = self._reads[rule.id] = reads(rule)
        return not found.isdisjoint(differing)

    def _is_asked_again(self, hit: Found, differing: frozenset[Read]) -> bool:
        rule = self._by_id.get(hit.finding.rule)  # none for the finding of a rule that failed
        return rule is None or self._reads_any(rule, differing)


def _is_same_run(before: Analysis, format_: Format, parsed: Parsed, index: int) -> bool:
    """Whether a run that was analysed before is the one that is analysed now, as it was before a change."""
    runs = before.runs
    return (
        before.format is format_ and len(runs) == len(parsed.runs) and runs[index].purpose == parsed.runs[index].purpose
    )


def folded(into: Mapping[str, tuple[str, ...]], found: Sequence[Found]) -> Iterator[Found]:
    """One cause, one finding: what another finding on the same run names as a cause becomes a place beside it.

    `into`: the rules whose findings take a rule's findings in. For reports alone: a cause keeps its own fixes where
    fixes are applied.
    """
    causes = _causes(into, found)
    folded_away = {id(item) for item, _ in causes}
    for item in found:
        if id(item) in folded_away:
            continue
        own = [cause.finding for cause, host in causes if host == (item.run, item.finding.rule)]
        more = tuple((one.location, one.message) for one in own)
        whole = item.finding._replace(related=(*item.finding.related, *more), causes=tuple(own))
        yield item._replace(finding=whole) if more else item


def without_fixes_of_causes(into: Mapping[str, tuple[str, ...]], found: Sequence[Found]) -> tuple[Found, ...]:
    """The same without the fixes of what `folded` makes a place beside another finding."""
    causes = {id(item) for item, _ in _causes(into, found)}
    return tuple(
        item._replace(finding=item.finding._replace(fixes=())) if id(item) in causes else item for item in found
    )


def _causes(into: Mapping[str, tuple[str, ...]], found: Sequence[Found]) -> list[tuple[Found, tuple[int, str]]]:
    """Findings that another one names as a cause, with that one's run and rule."""
    hosts = {(item.run, item.finding.rule) for item in found}
    return [(item, host) for item in found if (host := _host(item, into, hosts)) is not None]


def _host(
    item: Found, into: Mapping[str, tuple[str, ...]], hosts: Collection[tuple[int, str]]
) -> tuple[int, str] | None:
    """The run and the rule of the finding that takes `item` in."""
    wanted = ((item.run, rule) for rule in into.get(item.finding.rule, ()))
    return next((host for host in wanted if host in hosts), None)


def analyse(document: Document, context: Context, rules: Sequence[Rule], format_name: str = "") -> Analysis:
    """Analyses one document with `rules`. `format_name`: the format to use (default: recognised by its keys)."""
    return Engine(tuple(rules)).analyse(document, context, format_name)


def _with_files(parsed: Parsed, document: Document, found: list[Found]) -> tuple[Parsed, list[Found]]:
    """Beside a command's document the files that it takes values from. Findings about these values are the file's: what
    would change the command has no place there."""
    files = {one.path: one for one in (document.start.values.files.values() if document.start is not None else ())}
    if not files:
        return parsed, found
    others = tuple(one for path, one in files.items() if path not in {part.path for part in parsed.documents})
    moved = (item._replace(finding=item.finding._replace(fixes=())) for item in found)
    kept = [old if old.finding.location.path not in files else new for old, new in zip(found, moved, strict=True)]
    return parsed._replace(documents=(*parsed.documents, *others)), kept


def _in_words(finding: Finding, document: Document) -> Finding:
    """The finding with keys as the command writes its flags."""
    words = document.start.accepted.spelled if document.start is not None else None
    if words is None or finding.location.path != document.path:
        return finding
    return finding._replace(message=words(finding.message))


# Families of rules about arguments and names by themselves; the others speak of what a run does, as figures do.
_OF_ARGUMENTS = ("CFG", "DSP", "EVA", "MOD", "PEF", "SAV", "TRL", "TRN")
# Those about what a program may change before anything checks it.
_MAY_BE_CHANGED = (*_OF_ARGUMENTS, "DAT", "OPT", "PRE")


# Those about figures, which hold where a program trains nothing but what its arguments say.
_OF_WHAT_TRAINS = ("MEM", "OFF", "OPT001", "PAR00", "PAR012")


def _if_handed_on(finding: Finding, document: Document) -> Finding:
    """What is said of a program that the repository does not have, with its condition: nobody sees what it does with
    its arguments, so that an error is a warning."""
    if document.start is None or finding.severity == "info":
        return finding
    program, message = posixpath.basename(document.start.program.entry), finding.message
    if finding.rule.startswith(_OF_WHAT_TRAINS):
        severity = "warning" if document.path == finding.location.path else finding.severity
        return finding._replace(severity=severity, message=f"{message} (where {program} trains what its arguments say)")
    concerns = {finding.location.path, *(place.path for place, _ in finding.related)}
    is_of_arguments = finding.rule.startswith(_MAY_BE_CHANGED) and document.path in concerns
    if finding.severity != "error" or not is_of_arguments:
        return finding
    return _as_warning(finding, f"where {program} hands its arguments on as they stand")


def _as_warning(finding: Finding, condition: str) -> Finding:
    """An error that holds under a condition."""
    return finding._replace(severity="warning", message=f"{finding.message} ({condition})")


def _unjudged(format_: Format, document: Document, context: Context) -> Issue | None:
    """The format's note on a file whose keys mean what a script makes of them."""
    asked = getattr(format_, "unjudged", None)
    note: Issue | None = asked(document, context) if asked else None
    return note


def _without_skipped(format_: Format, document: Document, context: Context, found: list[Found]) -> list[Found]:
    """The findings without those of rules that the format says nothing of this document with, and without those about
    a value that a command of another file gives: they are said where the command stands."""
    skips = getattr(format_, "skips_rule", None)
    if skips is not None:
        found = [item for item in found if not skips(item.finding.rule, document, context)]
    commanded = document.start.values.by_command if document.start is not None else {}
    return [item for item in found if not (commanded and _is_of_a_command(item.finding, commanded))]


_OF_FIGURES = ("MEM", "SRC")  # rules that hold of a file as it stands
_OF_WORDS = ("CFG003", "CFG011", "TRN019", "AXO089")  # a word that the framework does not know
_OF_VALUES = ("CFG002", "CFG003", "CFG011", "TRN019")  # a value that the framework's own argument classes do not take


def _is_programs_own(finding: Finding, parsed: Parsed, context: Context) -> bool:
    """Whether a program or a command of the repository sets what the finding is about, knows the word that stands
    there, declares the key in its own argument class, or makes the file that is missing. What is information holds
    whatever is set."""
    place = finding.location
    key = next((step for step in reversed(place.pointer) if isinstance(step, str)), "")
    document = next((one for one in parsed.documents if one.path == place.path), None)
    if finding.rule.startswith(_OF_FIGURES) or not key or document is None:
        return False
    value = value_at(document.value, place.pointer)
    if finding.rule in _OF_WORDS and (key, str(value)) in context.own_words():
        return True  # nothing checks an annotation (transformers 5.23 hf_argparser.py:358)
    if finding.severity == "info":
        return False
    if finding.rule in _OF_VALUES and place.path == parsed.documents[0].path and context.declares(document, key):
        return True
    if document.start is not None:
        return False
    if finding.rule == MISSING_FILE and isinstance(value, str) and context.is_made(value):
        return True
    return context.is_filled_in(place.path, key, value)


def _is_of_a_command(finding: Finding, commanded: Mapping[str, bool]) -> bool:
    """Whether the finding is about an argument that a command gives. What a run does is said of the program where the
    command stands on a page."""
    key = str(finding.location.pointer[0]) if finding.location.pointer else ""
    return key in commanded and (commanded[key] or finding.rule.startswith(_OF_ARGUMENTS))


# What the engine's file says against the arguments, and what the Trainer makes of that file.
_OF_TWO_FILES = ("CFG008", "DSP001", "DSP002", "DSP016", "SAV002")


def _of_any_reader(format_: Any, document: Document, found: Iterable[Found]) -> Iterator[Found]:
    """The findings that hold whoever reads the document, and those on other files that need none of its keys. None of
    their fixes is safe."""
    for item in found:
        is_of_other = item.finding.location.path != document.path and item.finding.rule not in _OF_TWO_FILES
        if is_of_other or format_.rule_applies(item.finding.rule):
            fixes = tuple(fix._replace(safe=False) for fix in item.finding.fixes)
            yield item._replace(finding=_if_script_trains_it(item.finding._replace(fixes=fixes)))


def _if_script_trains_it(finding: Finding) -> Finding:
    """An error about the run of a file that a script reads by itself, with its condition: the script may quantise the
    model, or freeze it."""
    if finding.severity != "error" or not finding.rule.startswith(_OF_WHAT_TRAINS):
        return finding
    return _as_warning(finding, "where the script that reads this file trains what its keys say")


def _recognise(document: Document, format_name: str) -> tuple[Format, Recognition] | None:
    if any(problem.fatal for problem in document.problems):
        return None
    if document.start is not None:
        format_name = document.start.format
        if not format_name:
            return None  # a program that trains in a way of its own
    if format_name:
        for format_ in every():
            if format_name == format_.NAME:
                return format_, Recognition("certain", reason="named")
    return recognise(document)


def _hits(rule: Rule, facts: Facts) -> list[Hit]:
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


def _finding(rule: Rule, hit: Hit, run: Run, finder: Finder) -> Finding:
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


def _stack_at(stack: Stack, versions: Mapping[str, tuple[int, ...]]) -> Stack:
    """The stack with other versions. Keys of `versions` are package names as in settings."""
    changed: dict[str, Any] = {
        "framework_version" if name == stack.framework else name: number for name, number in versions.items()
    }
    return stack._replace(**{name: number for name, number in changed.items() if name in stack._fields})


def _with_fixes(finding: Finding, rule: Rule, fix_context: FixContext) -> Finding:
    return finding._replace(fixes=fixes_of(rule.fixes(), fix_context))


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


def internal_error(place: Location, error: BaseException, what: str, culprit: str = "memlint") -> Finding:
    """An exception in memlint or a plug-in (`culprit`) as a finding; its `data` has the stack frames for a bug report.

    `what`: what was being done, as "while it read this file".
    """
    error_text = f"{type(error).__name__}: {error}"
    if isinstance(error, extensions.Fault):
        error_text, culprit, error = str(error), "a plug-in", error.__cause__ or error
    message = f"memlint failed {what}: {error_text}. This is a bug in {culprit}, not in the file"
    report = "\n".join(_frames(error.__traceback__))
    return Finding(
        rule=INTERNAL_ERROR,
        name="internal/error",
        severity="error",
        message=message,
        location=place,
        key=f"{INTERNAL_ERROR}:{type(error).__name__}",
        data={"report": report},
    )


def _frames(trace: TracebackType | None) -> Iterable[str]:
    while trace is not None:
        code = trace.tb_frame.f_code
        inside = code.co_filename.replace("\\", "/").rpartition("/memlint/")
        yield f"{inside[2] if inside[1] else code.co_filename}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next


def _sorted_once(found: Iterable[Found]) -> tuple[Found, ...]:
    """Sorted by place, without duplicates: several runs of one file may give the same finding."""
    by_place = sorted(found, key=lambda item: _sort_key(item.finding))
    return tuple({_sort_key(item.finding): item for item in reversed(by_place)}.values())[::-1]


def _sort_key(finding: Finding) -> tuple[Any, ...]:
    place = finding.location
    return (place.path, place.line, place.column, finding.rule, finding.message)
