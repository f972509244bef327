"""One document through all stages, with made-up rules and estimators."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.expressions.facts import Facts
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.rule_groups import INTERNAL_ERROR
from memlint.ruleset.engine import Analysis, Engine, analyse
from memlint.ruleset.rule import Hit, Rule
from memlint.ruleset.rule_file import parse_rule
from memlint.ruleset.rule_hits import _confidence_and_severity
from memlint.run import Origin, Run
from memlint.source import load

CONFIG = """\
# a comment
model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
do_train: true
finetuning_type: lora
dataset: demo
template: llama3
cutoff_len: 4096
bf16: true
output_dir: out
"""
RULE = """\
id: TST001
name: test/some-slug
title: A rule for tests
severity: error
when: {when}
at: [{at}]
message: length {{sequence.length}}
why: Because this is a rule for tests and nothing else.
sources: [https://example.org]
examples: [passes: a, fails: b]
"""


def rule(when: str, at: str = "sequence.length") -> Rule:
    return parse_rule(load(RULE.format(when=when, at=at).encode(), "TST001.yaml", dialect="yaml12")[0])


def run(*rules: Rule, text: str = CONFIG) -> Analysis:
    workspace = in_memory({"train.yaml": text})
    return analyse(workspace.documents("train.yaml")[0], workspace.context(), rules)


def test_a_true_condition_is_a_finding_at_the_origin() -> None:
    (finding,) = run(rule("sequence.length > 2048")).findings

    assert (finding.rule, finding.severity, finding.message) == ("TST001", "error", "length 4096")
    assert (finding.location.line, finding.location.column, finding.location.pointer) == (8, 13, ("cutoff_len",))


def test_only_true_is_a_finding() -> None:
    assert run(rule("sequence.length > 5000"), rule("config.nothing > 1"), rule("hardware.bf16")).findings == ()


def test_the_first_name_with_a_place_wins() -> None:
    lines = [
        run(rule("1 < 2", at)).findings[0].location.line
        for at in (
            "config.nothing, config.stage",
            "evaluation.batch_size, config.bf16",
            "config",
            "evaluation.batch_size",
        )
    ]

    assert lines == [3, 9, 2, 2]


def test_a_crash_of_a_rule_is_a_finding_that_names_both() -> None:
    def check(facts: Facts) -> Iterator[Hit]:
        raise RuntimeError("oh")
        yield

    broken = rule("1 < 2")._replace(check=check, path="mine.yaml")
    found = run(broken, rule("sequence.length > 2048")._replace(id="TST002")).findings

    assert [finding.rule for finding in found] == [INTERNAL_ERROR, "TST002"]
    assert "TST001 (mine.yaml)" in found[0].message
    assert "RuntimeError: oh" in found[0].message
    assert "check" in found[0].data["report"]


def test_a_crash_of_a_fix_leaves_the_finding() -> None:
    calls: list[Run] = []

    def estimator(run: Run) -> Estimate:
        calls.append(run)
        if len(calls) > 1:
            raise ValueError("second")
        return Estimate((), "", None, None, None, None, None, None, "unknown")

    text = RULE.format(when="sequence.length > 2048", at="sequence.length")
    fix = "fix: [{title: shorter, set: {sequence.length: 1024}}]\n"
    fixable = parse_rule(load((text + fix).encode(), "TST001.yaml", dialect="yaml12")[0])
    analyser = uniform_analyser(Engine((fixable,), estimator), {}, workspace=in_memory({"train.yaml": CONFIG}))

    for first_fix in (False, True):
        calls.clear()
        found = analyser.analyse("train.yaml", first_fix=first_fix).findings
        assert [(one.rule, one.fixes) for one in found] == [(INTERNAL_ERROR, ()), ("TST001", ())]


def test_a_fix_carries_its_edits_and_the_run_that_it_leads_to() -> None:
    text = RULE.format(when="sequence.length > 2048", at="sequence.length")
    fix = (
        'fix: [{title: "cut at {sequence.length // 2}", set: {sequence.length: "=sequence.length // 2"}, safe: true}]\n'
    )
    fixable = parse_rule(load((text + fix).encode(), "TST001.yaml", dialect="yaml12")[0])
    analyser = uniform_analyser(Engine((fixable,)), {}, workspace=in_memory({"train.yaml": CONFIG}))
    (found,) = analyser.analyse("train.yaml", fixes=False).findings[0].fixes

    assert (found.title, dict(found.changes), found.safe) == ("cut at 2048", {"sequence.length": 2048}, True)
    assert [(edit.pointer, edit.action, edit.value) for edit in found.edits] == [(("cutoff_len",), "set", 2048)]
    assert found.before and found.after and 0 < found.after.figure < found.before.figure


def test_a_crash_of_the_estimator_leaves_the_other_rules() -> None:
    def estimator(run: Run) -> Estimate:
        raise KeyError("x")

    workspace = in_memory({"train.yaml": CONFIG})
    engine = Engine((rule("sequence.length > 2048"),), estimator)
    analysis = engine.analyse(workspace.documents("train.yaml")[0], workspace.context())

    assert [finding.rule for finding in analysis.findings] == [INTERNAL_ERROR, "TST001"]
    assert analysis.estimates[0].verdict == "unknown"


def test_a_file_that_nobody_claims_has_its_problems_only() -> None:
    assert run(rule("1 < 2"), text="a: 1\n").findings == ()
    assert [finding.rule for finding in run(rule("1 < 2"), text="a: [1\n").findings] == ["SRC001"]


def test_an_inferred_model_lowers_error_to_warning() -> None:
    analysis = run(rule("sequence.length > 2048"))
    assert analysis.parsed is not None
    inferred = analysis.runs[0]._replace(origins={"model.architecture": Origin("inferred")})

    assert _confidence_and_severity(rule("model.layers > 2"), inferred) == ("medium", "warning")
    assert _confidence_and_severity(rule("config.bf16 and sequence.length > 2"), inferred) == ("medium", "warning")
    assert _confidence_and_severity(rule("model.layers > 2"), analysis.runs[0]) == ("high", "error")


def test_an_inferred_model_says_nothing_about_what_the_keys_alone_decide() -> None:
    analysis = run(rule("1 < 2"))
    inferred = analysis.runs[0]._replace(origins={"model.architecture": Origin("inferred")})

    keys = 'config.bf16 and number(config.cutoff_len) in [1, 2] and version("transformers") >= "4.57"'
    assert _confidence_and_severity(rule(keys), inferred) == ("high", "error")
    assert _confidence_and_severity(rule("parallelism.world_size > 8"), inferred) == ("high", "error")


def test_severities_by_confidence_are_lower_where_the_release_is_presumed() -> None:
    text = RULE.format(when='version("transformers") >= "5"', at="config.bf16")
    text = text.replace("severity: error", "severity: {high: warning, medium: info, low: info}")
    several = parse_rule(load(text.encode(), "rule.yaml")[0])
    (run,) = analyse(load(CONFIG.encode(), "a.yaml")[0], in_memory({"a.yaml": CONFIG}).context(), [several]).runs
    assert _confidence_and_severity(several, run) == ("medium", "info")
    stated = run._replace(origins={**run.origins, "stack.transformers": Origin("setting")})
    assert _confidence_and_severity(several, stated) == ("high", "warning")


def test_findings_come_in_the_order_of_places_and_once() -> None:
    late, early = rule("1 < 2", "config.bf16"), rule("1 < 2", "config.stage")._replace(id="TST002")

    assert [finding.rule for finding in run(late, early, early).findings] == ["TST002", "TST001"]


def test_the_same_input_gives_the_same_answer() -> None:
    rules = (rule("1 < 2"), rule("sequence.length > 2048", "config.stage"))

    assert run(*rules).findings == run(*rules).findings


def test_plans_are_judged_by_what_can_be_as_severe_as_the_finding() -> None:
    error = rule("sequence.length > 2048")
    warning, plan = (
        error._replace(id="TST002", severity="warning"),
        error._replace(id="TST003", severity="info", plan=True),
    )
    doubtful = error._replace(id="TST004", severity="info", severities={"high": "error", "low": "info"})
    engine = Engine((error, warning, plan, doubtful))

    assert [one.id for one in engine.at_least("error").rules] == ["TST001", "TST003", "TST004"]
    assert list(engine.at_least("info").rules) == list(engine.rules)
    assert (
        engine.at_least("error") is engine.at_least("error") and engine.at_least("error").estimator is engine.estimator
    )


def test_what_a_misspelled_key_leaves_out_is_its_slip() -> None:
    """Once the key is spelled right the rest is judged again; an error is told in any case."""
    about = RULE.replace("length {{sequence.length}}", "without `cutoff_len` it is {{sequence.length}}")
    for severity, said in (("warning", ["CFG001"]), ("error", ["CFG001", "TST001"])):
        text = about.format(when="sequence.length > 8", at="config").replace("severity: error", f"severity: {severity}")
        made = parse_rule(load(text.encode(), "TST001.yaml", dialect="yaml12")[0])
        found = run(made, text=CONFIG.replace("cutoff_len", "cutof_len")).findings
        assert sorted(one.rule for one in found) == said
