"""A file that changed is judged as a new file is, though rules that read nothing that changed are not asked again."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.estimate import estimate, estimate_in_stages
from memlint.memory.values import StagedEstimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.reads import RunFacts, changed, reads
from memlint.ruleset.rule import Body, Condition, Hit, Rule
from memlint.ruleset.shipped import shipped
from memlint.run import Run, replace
from tests.memory import runs

ENGINE = Engine(shipped())
FACTS = {"gpu": find("RTX4090"), "gpus": 1, "gpus_per_node": 1}
LINES = {
    "model_name_or_path": ("Qwen/Qwen2.5-7B-Instruct", "google/gemma-2-9b-it"),
    "stage": ("sft", "dpo"),
    "finetuning_type": ("lora", "full"),
    "lora_target": ("all", "q_proj,v_proj"),
    "per_device_train_batch_size": ("1", "8"),
    "gradient_accumulation_steps": ("1", "16"),
    "cutoff_len": ("1024", "8192"),
    "packing": ("true", "false"),
    "optim": ("adamw_torch", "paged_adamw_8bit", "adamw_bnb_8bit"),
    "lr_scheduler_type": ("constant", "cosine"),
    "warmup_ratio": ("0.0", "0.1"),
    "learning_rate": ("1.0e-5", "1.0e-2"),
    "bf16": ("true", "false"),
    "fp16": ("true", "false"),
    "quantization_bit": ("4", "8"),
    "enable_liger_kernel": ("true", "false"),
    "gradient_checkpointing": ("true", "false"),
    "save_steps": ("0.5", "500", "500.0"),  # equal numbers that are not the same
    "no_such_key": ("1", "2"),
}


def _text(values: dict[str, str]) -> str:
    start = "do_train: true\ndataset: x\ntemplate: qwen\noutput_dir: y\n"
    return start + "".join(f"{key}: {value}\n" for key, value in values.items())


configs = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LINES.items()})


@settings(deadline=None)
@given(configs, configs, st.sets(st.sampled_from(sorted(LINES)), min_size=1, max_size=3))
def test_a_changed_file_gets_the_findings_of_a_new_one(
    values: dict[str, str], others: dict[str, str], keys: set[str]
) -> None:
    first = {"model_name_or_path": LINES["model_name_or_path"][0], **values}
    second = {key: value for key, value in {**first, **others}.items() if key not in keys or key in others}
    workspace = in_memory({"sft.yaml": _text(first)})
    analyser = uniform_analyser(ENGINE, FACTS, workspace=workspace)
    before = analyser.analyse_document(workspace.documents("sft.yaml")[0], workspace)
    again = analyser.reanalysis(before, workspace)({"sft.yaml": _text(second).encode()})
    fresh = in_memory({"sft.yaml": _text(second)})
    new = uniform_analyser(ENGINE, FACTS, workspace=fresh).analyse_document(fresh.documents("sft.yaml")[0], fresh)
    assert _said(again) == _said(new)


def _said(analysis: Analysis) -> set[tuple[str, str, str, str]]:
    return {(one.rule, one.severity, one.key, one.message) for one in analysis.findings}


def _rule(when: Condition | None, message: tuple[object, ...] = ()) -> Rule:
    check = None if when is not None else lambda facts: [Hit("", "")]
    return Rule("X001", "x/x", "info", (), lambda: Body(when, message), check=check)  # type: ignore[arg-type]


def test_reads_are_those_of_condition_and_message() -> None:
    form = ["and", ["given", ["raw", "config", "optim"]], ["==", ["field", "method.kind"], ["value", "lora"]]]
    found = reads(_rule(Condition(form), ("a ", ["fact", "estimate.parts"])))
    assert {("raw", "config", "optim"), ("run", "method"), ("estimate",)} <= found
    assert ("all",) in reads(_rule(Condition(form), (["fact", "parallelism.launch"],)))
    assert ("run", "batch") not in found
    assert reads(_rule(None)) == {("all",)}


def _known(run: Run, raw: dict[str, object]) -> RunFacts:
    return RunFacts(run, StagedEstimate(estimate(run)), {"config": raw})


def test_what_changed_is_named_by_key_and_part() -> None:
    run = runs.run()
    before = _known(run, {"a": 1, "b": {"c": 2}})
    assert changed(before, _known(run, {"a": 1, "b": {"c": 2}})) == frozenset()
    by_key = changed(before, _known(run, {"a": 1, "b": {"c": 3}}))
    assert by_key == {("raw", "config"), ("raw", "config", "b"), ("all",)}
    by_part = changed(before, _known(replace(run, {"batch.micro_batch_size": 7}), {"a": 1, "b": {"c": 2}}))
    assert by_part == {("run", "batch"), ("estimate",), ("all",)}


def test_figures_that_nobody_asked_for_are_not_computed_to_compare_them() -> None:
    run = replace(runs.run(), {"method.kind": "full", "hardware.gpu": None})
    before, after = (
        RunFacts(one, estimate_in_stages(one), {}) for one in (run, replace(run, {"batch.micro_batch_size": 7}))
    )

    assert ("estimate",) in changed(before, after)
    assert before.estimated.known is None
    assert after.estimated.known is None


@settings(deadline=None)
@given(configs, configs)
def test_estimates_in_stages_give_the_same_findings(values: dict[str, str], others: dict[str, str]) -> None:
    """Those of a file without a card, and of the file after a change."""
    first = {"model_name_or_path": LINES["model_name_or_path"][0], "finetuning_type": "full", **values}
    said = []
    for engine in (ENGINE, Engine(shipped(), in_stages=estimate_in_stages)):
        workspace = in_memory({"sft.yaml": _text(first)})
        analyser = uniform_analyser(engine, {"gpus": 1, "gpus_per_node": 1}, workspace=workspace)
        before = analyser.analyse_document(workspace.documents("sft.yaml")[0], workspace)
        again = analyser.reanalysis(before, workspace)({"sft.yaml": _text({**first, **others}).encode()})
        said.append([(one.rule, one.message, one.fixes) for done in (before, again) for one in done.findings])
    assert said[0] == said[1]
