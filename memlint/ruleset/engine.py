"""Analyses one document: recognises its format, parses it into runs, estimates them and applies the rules.

`Engine(rules).analyse(document, context)` of a YAML file gives an `Analysis` with its `format`, its `runs`, an estimate
of each, and its `findings`. Fixes that change memory are searched later (`fixes.attach`).

It reads no files and prints nothing. An exception becomes a finding (MEM000) on the file, and the other files go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import memlint.plugin_registry as extensions
from memlint._record import NamedTuple
from memlint.expressions.facts import Facts, Under
from memlint.findings import SEVERITIES, Finding
from memlint.formats import recognise_read
from memlint.formats.base import Context, Format, Issue, Parsed, Recognition, no_launches
from memlint.memory.estimate import estimate as closed_form
from memlint.memory.values import Estimate, StagedEstimate, UnknownField
from memlint.repository.launch.apply import FORMATS as LAUNCHED
from memlint.repository.launch.apply import (
    LaunchContext,
    advice,
    is_in_config,
    on_machine,
    with_launch_command,
    with_launch_origin,
)
from memlint.repository.launch.missing_engine_file import with_stage_readings
from memlint.repository.launch.unknown_launcher import with_launcher_readings
from memlint.repository.once import Once
from memlint.ruleset.format_findings import issue_findings
from memlint.ruleset.found import Found
from memlint.ruleset.places import Finder, location
from memlint.ruleset.release_reading import with_release_readings
from memlint.ruleset.rule import Rule
from memlint.ruleset.rule_hits import finding_of, hits_of, most_severe
from memlint.ruleset.rule_set import RuleSet, listed
from memlint.ruleset.source_findings import problem_findings, template_finding
from memlint.run import Run, Stack
from memlint.source import in_dialect
from memlint.source.document import LOST_FLAGS, Document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.ruleset.reads import Read


class Analysis(NamedTuple):
    """The result for one document. `format`: None if no format recognises it. `estimated`: one per run.

    `is_unjudged`: a script reads the file with code of its own, so no fix of it is safe. `hits`: all findings of rules,
    also those that `found` leaves out because of who reads the file.
    """

    document: Document
    format: Format | None
    recognition: Recognition | None
    parsed: Parsed | None
    estimated: tuple[StagedEstimate, ...]
    found: tuple[Found, ...]
    is_unjudged: bool = False
    hits: tuple[Found, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(found.finding for found in self.found)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return tuple(one.whole for one in self.estimated)

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.parsed.runs if self.parsed else ()


# Analyses the same document again; its argument replaces the contents of files, by path.
Reanalyse = Callable[[Mapping[str, bytes]], Analysis]


class Judged(NamedTuple):
    """An analysis under every rule, and a function that repeats it for changed files under the rules that plans are
    judged by."""

    analysis: Analysis
    reanalyse: Reanalyse


class Engine:
    """Applies a set of rules. `estimator`: estimates a run; by default the closed form. `in_stages`: does so in stages,
    where few of the estimates are shown."""

    __slots__ = ("_in_stages", "_reads", "_stricter", "estimator", "rules")

    def __init__(
        self,
        rules: RuleSet | Iterable[Rule],
        estimator: Callable[[Run], Estimate] = closed_form,
        in_stages: Callable[[Run], StagedEstimate] | None = None,
    ) -> None:
        self.rules = rules if isinstance(rules, RuleSet) else listed(rules)
        self.estimator = estimator
        self._in_stages = in_stages
        self._reads: dict[str, frozenset[Read]] = {}  # rule id -> its inputs; filled on demand
        self._stricter: dict[str, Engine] = {}  # severity -> the engine of `at_least`; filled on demand

    def at_least(self, severity: str) -> Engine:
        """The engine with the rules that written plans are judged by: those that may report `severity` or worse, and
        those about memory. Milder findings do not speak against a plan."""
        if severity not in self._stricter:
            least = SEVERITIES.index(severity)
            severe = self.rules.where(lambda rule: rule.plan or most_severe(rule) >= least)
            self._stricter[severity] = Engine(severe, self.estimator, self._in_stages)
        return self._stricter[severity]

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
        that their rules define. `before`: the analysis of the document before a change. Rules whose inputs did not
        change are then not evaluated again; their findings are taken from `before`, with their old places.
        """
        try:
            return self._analyse(document, context, format_name, fixes, before)
        except Exception as error:
            found = _crash(document, error, "while it read this file")
            return Analysis(document, None, None, None, (), (found,))

    def _analyse(
        self,
        document: Document,
        context: Context,
        format_name: str,
        fixes: bool,
        before: Analysis | None,
    ) -> Analysis:
        """A document goes through text, format, runs, estimates and rules; each step finds something of its own.

        `problems` are of the text and of memlint itself, issues are the format's. `hits` are of rules, for each run;
        those that the file's launch commands settle are left out of `found`. Who reads the file decides which of all
        these are `shown`.
        """
        document = on_machine(document, context)
        recognised = recognise_read(document, format_name)
        template = _template(document, recognised)
        if recognised is None:
            findings_of_text = [template] if template else problem_findings(document)
            return Analysis(document, None, None, None, (), _sorted_once(map(Found, findings_of_text)))
        format_, recognition = recognised
        document = in_dialect(document, _dialect(format_, context))
        launched = with_launch_command(document, format_.NAME, context)
        context = launched.context
        parsed = _parsed(format_, document, launched)
        if any(problem.code == LOST_FLAGS for problem in document.problems):
            parsed = parsed._replace(runs=())
        takes_comments = _takes_comments(format_, document, context)
        problems = [Found(one) for part in parsed.documents for one in problem_findings(part, takes_comments)]
        parsed, estimated, failures = self._estimated(parsed, format_, document, context)
        if template is not None:
            parsed = _with_files_of_command(parsed, document)
            return Analysis(document, format_, recognition, parsed, estimated, (Found(template),))
        hits = self._hits(format_, parsed, estimated, document, launched, fixes, before)
        found = [*problems, *failures, *map(Found, issue_findings(parsed))]
        found += self._under_commands(hits, format_.NAME, document, context)
        if launched.launch is not None:
            found = [item for item in found if is_in_config(item.finding, document, launched.launch)]
        parsed = _with_files_of_command(parsed, document)
        shown, is_unjudged = _for_reader(found, format_, parsed, document, context)
        return Analysis(
            document, format_, recognition, parsed, estimated, _sorted_once(shown), is_unjudged, tuple(hits)
        )

    def _hits(
        self,
        format_: Format,
        parsed: Parsed,
        estimated: tuple[StagedEstimate, ...],
        document: Document,
        launched: LaunchContext,
        fixes: bool,
        before: Analysis | None,
    ) -> list[Found]:
        """What the rules find in all runs."""
        hits: list[Found] = []
        for index, one in enumerate(estimated):
            under = self._estimate_under(format_, document, launched.context, index, parsed.runs[index])
            launch_advice = Once(partial(advice, document, launched)).get
            facts = Facts(parsed.runs[index], one, parsed.raw, under, launch_advice)
            hits.extend(self._apply_rules(format_, parsed, index, facts, fixes, before))
        return _without_consequences_of_slips(hits, parsed.issues)

    def _under_commands(self, hits: list[Found], format_name: str, document: Document, context: Context) -> list[Found]:
        """The hits that hold of a config as the repository's commands launch it, with their options over it."""
        if not hits or document.start is not None or format_name not in LAUNCHED:
            return hits
        from memlint.ruleset.under_commands import as_launched, without_settled

        alone = context._replace(repository=context.repository.but(launch_commands=no_launches))
        documents = as_launched(document, context.repository.launch_commands(document.path))
        return without_settled(hits, documents, lambda one: self._analyse(one, alone, format_name, False, None).hits)

    def folds_into(self, rule: str) -> tuple[str, ...]:
        """The rules whose finding on the same run takes in one of this rule."""
        found = self.rules.find(rule)
        return found.folds_into if found else ()

    def _estimated(
        self, parsed: Parsed, format_: Format, document: Document, context: Context
    ) -> tuple[Parsed, tuple[StagedEstimate, ...], list[Found]]:
        """(parsed, estimates of its runs, findings about estimates that failed). A run that does not fit is also
        estimated under older releases of its packages, if its releases are not known."""
        failures: list[Found] = []
        estimated = tuple(self._estimate(run, document, failures) for run in parsed.runs)
        if not any(one.verdict == "out_of_memory" for one in estimated):
            return parsed, estimated, failures
        parsed = with_release_readings(parsed, [one.whole for one in estimated], format_.parse, context)
        return parsed, tuple(self._estimate(run, document, failures) for run in parsed.runs), failures

    def _estimate(self, run: Run, document: Document, failures: list[Found]) -> StagedEstimate:
        """The estimate of a run. If the estimator fails, an unknown one, so that other rules still run; a finding about
        that is added to `failures`."""
        try:
            return self._in_stages(run) if self._in_stages is not None else StagedEstimate(self.estimator(run))
        except Exception as error:
            failures.append(_crash(document, error, "while it estimated this run"))
            unknown = UnknownField("estimate", f"memlint's estimator failed: {type(error).__name__}")
            return StagedEstimate(Estimate((), "", None, None, None, None, None, None, "unknown", unknown=(unknown,)))

    def _estimate_under(
        self, format_: Format, document: Document, context: Context, index: int, run: Run
    ) -> Under | None:
        """A function that estimates the run under other framework versions; None where the repository pins one at a
        commit, so that no release is assumed."""
        if context.at_commits & {"transformers", "trl"}:
            return None

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
        run, estimated = facts.run, facts.estimated
        assert estimated is not None  # if the estimator failed, it is an Estimate with verdict "unknown"
        finder = Finder(parsed, run)
        rules = self.rules.candidates(facts, parsed.format)
        if before is not None and _is_same_run(before, format_, parsed, index):
            from memlint.ruleset.reads import RunFacts, changed

            differing = changed(
                RunFacts(before.runs[index], before.estimated[index], before.parsed.raw if before.parsed else {}),
                RunFacts(run, estimated, parsed.raw),
            )
            rules = [rule for rule in rules if self._reads_any(rule, differing)]
            yield from (one for one in before.hits if one.run == index and not self._is_asked_again(one, differing))
        for rule in rules:
            found: list[Found] = []
            try:
                found.extend(
                    Found(finding_of(rule, hit, run, finder), index, rule.plan) for hit in hits_of(rule, facts)
                )
                if found and fixes:
                    found = self._with_fixes(found, rule, format_, parsed, facts)
            except Exception as error:
                what = f"while rule {rule.id} ({rule.path}) looked at this file"
                at_fault = "a plug-in" if rule in extensions.rules else "memlint"
                found.append(_crash(parsed.documents[0], error, what, at_fault)._replace(run=index))
            yield from found

    def _with_fixes(self, found: list[Found], rule: Rule, format_: Format, parsed: Parsed, facts: Facts) -> list[Found]:
        """What a rule found in a run, each with the fixes that the rule defines, without figures."""
        from memlint.ruleset.rule_fixes import FixContext, fixes_of

        fixes = fixes_of(rule.fixes(), FixContext(format_, parsed, facts))
        return [item._replace(finding=item.finding._replace(fixes=fixes)) for item in found]

    def _reads_any(self, rule: Rule, differing: frozenset[Read]) -> bool:
        found = self._reads.get(rule.id)
        if found is None:
            from memlint.ruleset.reads import reads

            found = self._reads[rule.id] = reads(rule)
        return not found.isdisjoint(differing)

    def _is_asked_again(self, hit: Found, differing: frozenset[Read]) -> bool:
        rule = self.rules.find(hit.finding.rule)  # None: MEM000, the finding about a rule that failed
        return rule is None or self._reads_any(rule, differing)


def _is_same_run(before: Analysis, format_: Format, parsed: Parsed, index: int) -> bool:
    """Whether run `index` of `before` is run `index` of `parsed` before the change: same format, number, purpose."""
    runs = before.runs
    return (
        before.format is format_ and len(runs) == len(parsed.runs) and runs[index].purpose == parsed.runs[index].purpose
    )


def analyse(document: Document, context: Context, rules: Iterable[Rule], format_name: str = "") -> Analysis:
    """Analyses one document with `rules`. `format_name`: the format to use (default: recognised by its keys)."""
    return Engine(rules).analyse(document, context, format_name)


def _crash(document: Document, error: Exception, what: str, at_fault: str = "memlint") -> Found:
    """The finding about an exception, on the file."""
    from memlint.ruleset.internal_error import internal_error  # where something has failed

    return Found(internal_error(location(document, ()), error, what, at_fault))


def _template(document: Document, recognised: tuple[Format, Recognition] | None) -> Finding | None:
    """The one finding about a file that a template engine fills in first; None of other files."""
    follows = recognised is not None and getattr(recognised[0], "RESOLVES_REFERENCES", False)
    return template_finding(document, follows) if recognised or document.problems else None


def _takes_comments(format_: Format, document: Document, context: Context) -> bool:
    """Whether the reader of this JSON takes comments, which may depend on the program that reads it."""
    asks = getattr(format_, "takes_comments", None)
    return bool(document.problems) and asks is not None and bool(asks(document, context))


def _dialect(format_: Format, context: Context) -> str:
    """How the format's parser reads plain scalars, which may depend on its release."""
    by_release = getattr(format_, "dialect", None)
    return by_release(context) if by_release else format_.DIALECT


def _parsed(format_: Format, document: Document, launched: LaunchContext) -> Parsed:
    """The document as its format reads it, with the other ways in which it may run."""
    context = launched.context
    parsed = format_.parse(document, context)
    parsed = with_launch_origin(parsed, launched.launch, document, lambda other: format_.parse(other, context))
    if launched.numbers:
        from memlint.repository.launch.several_numbers import with_number_readings  # where commands disagree

        parsed = with_number_readings(parsed, format_.parse, document, context, launched.numbers)
    parsed = with_launcher_readings(parsed, format_.parse, document, context)
    return with_stage_readings(parsed, format_.parse, document, context)


def _with_files_of_command(parsed: Parsed, document: Document) -> Parsed:
    """`parsed` with the files that a command takes values from among its documents."""
    files = {one.path: one for one in (document.start.values.documents() if document.start is not None else ())}
    known = {part.path for part in parsed.documents}
    others = tuple(one for path, one in files.items() if path not in known)
    return parsed._replace(documents=(*parsed.documents, *others)) if others else parsed


def _for_reader(
    found: list[Found], format_: Format, parsed: Parsed, document: Document, context: Context
) -> tuple[list[Found], bool]:
    """(the findings that hold given who reads the document, whether a script reads it with code of its own)."""
    if not found:
        return [], False
    from memlint.ruleset.reader_findings import adapt_to_reader

    return adapt_to_reader(found, format_, parsed, document, context)


def _without_consequences_of_slips(hits: Iterable[Found], issues: Iterable[Issue]) -> list[Found]:
    """The hits without those about a key that the file has, but misspelled or in the wrong section: the issue about
    that is enough."""
    unknown = [one for one in issues if one.code == "unknown-key"]
    misspelled = {f"`{one.suggestion or one.pointer[-1]}`" for one in unknown if one.suggestion or one.pointer}

    def follows_from_slip(finding: Finding) -> bool:
        return finding.severity != "error" and any(key in finding.message for key in misspelled)

    return [hit for hit in hits if not follows_from_slip(hit.finding)]


def _stack_at(stack: Stack, versions: Mapping[str, tuple[int, ...]]) -> Stack:
    """The stack with other versions. Keys of `versions` are package names as in settings."""
    changed: dict[str, Any] = {
        "framework_version" if name == stack.framework else name: number for name, number in versions.items()
    }
    return stack._replace(**{name: number for name, number in changed.items() if name in stack._fields})


def _sorted_once(found: Iterable[Found]) -> tuple[Found, ...]:
    """The findings sorted by place, without duplicates: several runs of one file may give the same finding."""
    by_place = sorted(found, key=lambda item: _sort_key(item.finding))
    return tuple({_sort_key(item.finding): item for item in reversed(by_place)}.values())[::-1]


def _sort_key(finding: Finding) -> tuple[Any, ...]:
    place = finding.location
    return (place.path, place.line, place.column, finding.rule, finding.message)
