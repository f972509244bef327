"""What a finding offers as a whole: plans that fit as files, else steps that help and hardware that would do."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlint.fixes.plan_options as plan_options
import memlint.fixes.written_plans as written_plans
from memlint.findings import Finding, Location
from memlint.fixes.moves.hardware import advice, can_grow_segments
from memlint.fixes.plan import Plan, peak
from memlint.fixes.plan_options import more_on_several
from memlint.fixes.plan_search import PlanSearch, SearchHooks
from memlint.fixes.proposed_change import ProposedChange
from memlint.fixes.written_plans import Failure, main_finding
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory import estimate
from memlint.memory.values import Estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.found import Found
from memlint.ruleset.shipped import shipped
from memlint.run import UNKNOWN, Origin, Quantization, Run, replace
from memlint.source import load
from tests.frameworks import AXOLOTL
from tests.memory.runs import TINY
from tests.memory.runs import run as small_run

EXAMPLES = Path(__file__).parents[2] / "examples"
PRETRAINING = """
model_name_or_path: Qwen/Qwen2.5-7B
stage: pt
do_train: true
finetuning_type: full
dataset: x
cutoff_len: {length}
bf16: true
flash_attn: fa2
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
output_dir: out
"""


def test_a_plan_that_no_file_says_as_a_whole_tells_so(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis, _ = linted(EXAMPLES / "trainer/sft_full_llama3_8b.yaml", "A100-80GB")
    monkeypatch.setattr(written_plans, "_edits", lambda *_: None)
    run, before = analysis.runs[0], analysis.estimates[0]
    step = ProposedChange("a smaller batch", {"batch.micro_batch_size": 1})
    found = written_plans.written(analysis, 0, Plan((step,), run, before), lambda _: analysis)
    assert isinstance(found, Failure) and found.unplaced is not None
    assert found.reason == "the files cannot say all of it together" and found.banned == {step.title}


def test_what_has_no_effect_is_left_out_before_bytes_are_spared() -> None:
    """A change that no key takes explains why the written run needs more: without it nothing more is missing."""
    analysis, _ = linted(EXAMPLES / "trainer/sft_full_llama3_8b.yaml", "A100-80GB")
    run, before = analysis.runs[0], analysis.estimates[0]
    step = ProposedChange("smaller buckets", {"parallelism.zero.reduce_bucket_size": 5})
    planned = Plan((step,), replace(run, step.changes), before._replace(device_high_bytes=1))
    assert written_plans._shortfall(planned, run, before) == Failure(frozenset({"smaller buckets"}))
    taken = written_plans._shortfall(planned, planned.run, before)
    assert taken == Failure(margin=(peak(before) or 0) - 1)


def test_more_cards_are_worth_a_word_beside_a_plan_that_few_hosts_hold() -> None:
    analysis, _ = linted(EXAMPLES / "trainer/sft_full_llama3_8b.yaml", "A100-80GB")
    run = replace(analysis.runs[0], {"parallelism.world_size": 2})
    plan = Plan((), run, analysis.estimates[0])
    good = [
        plan_options._is_good_enough(plan._replace(estimate=plan.estimate._replace(host_bytes=gib << 30)))
        for gib in (280, 300)
    ]
    assert good == [True, False]


def test_no_plan_is_written_twice_where_the_first_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis, _ = linted(EXAMPLES / "trainer/sft_full_llama3_8b.yaml", "A100-80GB")
    tried: list[tuple[str, ...]] = []

    def fail(of: Analysis, index: int, plan: Plan, *_: object) -> Failure:
        tried.append(tuple(step.title for step in plan.steps))
        return Failure()

    monkeypatch.setattr(plan_options, "with_needed_changes", fail)
    monkeypatch.setattr(plan_options, "_SEARCHES", 1)
    of_run = plan_options.RunPlanner(analysis, 0, estimate, lambda _: analysis, SearchHooks(estimate))
    of_run.first_option()
    of_run.options()

    assert len(tried) == len(set(tried)) > 1


def linted(path: Path, card: str) -> tuple[Analysis, Finding]:
    origin = Origin("command_line")
    facts = {"gpu": find(card), "gpu_origin": origin, "gpus": 1, "gpus_origin": origin, "gpus_per_node": 1}
    engine = Engine(shipped())
    outcome = uniform_analyser(engine, facts, cwd=str(path.parent)).analyse(str(path))
    return outcome.analyses[0], next(finding for finding in outcome.findings if finding.rule == "MEM001")


def test_a_plan_that_brings_deepspeed_is_estimated_as_its_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(PRETRAINING.format(length=2048))
    analysis, _ = linted(tmp_path / "run.yaml", "A100-80GB")
    run = analysis.runs[0]
    search = PlanSearch(run, analysis.estimates[0])
    step = next(step for step in search.steps(()) if step.group == "zero")
    after = search.changed((step,))

    assert not run.stack.expandable_segments  # one process, started without torchrun
    assert after.parallelism.engine == "deepspeed" and after.stack.expandable_segments


@pytest.mark.parametrize("name", ["trainer/sft_full_llama3_8b.yaml", "llamafactory/llama3_8b_full_sft.yaml"])
def test_a_full_fine_tune_gets_plans_that_fit_of_different_kinds(name: str) -> None:
    _, finding = linted(EXAMPLES / name, "A100-80GB")

    written = [fix for fix in finding.fixes if fix.patches]
    assert len(written) >= 2
    assert all(fix.verdict_after == "fits" for fix in finding.fixes)
    assert {fix.changes.get("method.kind") for fix in written} == {"lora", None}


@pytest.mark.parametrize("name", ["trainer/sft_full_llama3_8b.yaml", "llamafactory/llama3_8b_full_sft.yaml"])
def test_the_first_fix_alone_is_the_first_of_all(name: str) -> None:
    path = EXAMPLES / name
    facts = {"gpu": find("A100-80GB"), "gpu_origin": Origin("command_line"), "gpus": 1, "gpus_per_node": 1}
    analyser = uniform_analyser(Engine(shipped()), facts, cwd=str(path.parent))
    whole, first = (analyser.analyse(str(path), first_fix=alone).findings for alone in (False, True))

    assert any(len(finding.fixes) > 1 for finding in whole)
    assert [finding.fixes[:1] for finding in whole] == [finding.fixes for finding in first]


def test_where_the_first_fix_is_shown_alone_causes_have_none(tmp_path: Path) -> None:
    """What is told beside another finding is told without a fix there, so that none is tried."""
    path = tmp_path / "run.yaml"
    path.write_text(
        PRETRAINING.format(length=2048).replace("stage: pt", "stage: sft").replace("batch_size: 1", "batch_size: 8")
    )
    facts = {"gpu": find("A100-80GB"), "gpu_origin": Origin("command_line"), "gpus": 1, "gpus_per_node": 1}
    analyser = uniform_analyser(Engine(shipped()), facts, cwd=str(tmp_path))
    whole, first = (analyser.analyse(str(path), first_fix=alone).findings for alone in (False, True))
    fixable = [[cause.rule for finding in found for cause in finding.causes if cause.fixes] for found in (whole, first)]

    assert fixable[0] and not fixable[1]
    assert [finding.fixes[:1] for finding in whole] == [finding.fixes for finding in first]


def test_where_nothing_fits_steps_that_help_and_hardware_that_would(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    half = PRETRAINING.format(length=2048).replace("bf16: true", "pure_bf16: true")
    path.write_text(half + "predict_with_generate: true\n")  # which LLaMA-Factory refuses under ZeRO-3
    analysis, finding = linted(path, "T4")
    named = [fix for fix in finding.fixes if fix.title.startswith("use ")]
    assert not any("ZeRO-3" in fix.title for fix in finding.fixes)
    helpful = [fix for fix in finding.fixes if fix not in named]

    assert 1 <= len(helpful) <= 3
    assert all(fix.edits and fix.verdict_after != "fits" for fix in helpful)
    assert all(fix.before and fix.after and fix.after.figure < fix.before.figure for fix in helpful)
    assert named
    assert not any(fix.edits or fix.safe for fix in named)
    for card in analysis.estimates[0].fits_on[:1]:
        assert estimate(replace(analysis.runs[0], {"hardware.gpu": find(card)})).verdict == "fits"


def test_more_cards_are_named_where_sharding_is_enough() -> None:
    analysis, _ = linted(EXAMPLES / "llamafactory/llama3_8b_full_sft.yaml", "A100-80GB")
    titles = [fix.title for fix in advice(analysis.runs[0], analysis.estimates[0], estimate)]

    assert any(title.endswith("of these cards with ZeRO-3") for title in titles)


def test_experts_that_newer_releases_leave_unquantised_are_told_of() -> None:
    experts = {**TINY, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
    config = {**experts, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24}
    lora = {"method__kind": "lora", "method__rank": 8, "method__targets": ("q_proj", "v_proj")}
    four_bits = {"model__quantization": Quantization("bnb", 4, "nf4", True), "hardware__gpu": find("RTX 3060")}
    mixture = small_run(config, **lora, **four_bits, batch__micro_batch_size=1)
    before = estimate(mixture)
    told = [fix for fix in advice(mixture, before, estimate) if "transformers 4.57" in fix.title]

    assert before.verdict != "fits"
    assert [fix.verdict_after for fix in told] == ["fits"]
    assert told[0].before and told[0].after and told[0].after.figure < told[0].before.figure / 2
    smaller = replace(mixture, {"hardware.gpu": find("RTX 2060")})
    (fix,) = [one for one in advice(smaller, estimate(smaller), estimate) if "transformers 4.57" in one.title]
    assert fix.title.endswith(", on RTX 3080") and fix.verdict_after == "fits"
    for other in (AXOLOTL, {"stack.transformers": (4, 57)}):
        run = replace(mixture, other)
        assert not any("transformers" in fix.title for fix in advice(run, estimate(run), estimate))


def test_a_script_that_loads_its_model_too_early_for_zero3_is_told_of_the_order() -> None:
    big = {**TINY, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 20}
    world = {f"parallelism__{name}": 8 for name in ("world_size", "data_parallel_size", "gpus_per_node")}
    stage3 = {"parallelism__engine": "deepspeed", "parallelism__zero__stage": 3, "offload__optimizer": "cpu"}
    early = {"parallelism__zero__shards_on_load": False, "hardware__gpu": find("RTX4090")}
    run = small_run(big, **world, **stage3, **early, batch__micro_batch_size=1)
    told = [fix for fix in advice(run, estimate(run), estimate) if "training arguments" in fix.title]

    assert estimate(run).peak_phase == "load"
    assert [fix.verdict_after for fix in told] == ["fits"]
    in_time = replace(run, {"parallelism.zero.shards_on_load": True})
    assert not any("training arguments" in fix.title for fix in advice(in_time, estimate(in_time), estimate))


def test_a_tight_run_is_told_of_segments_that_grow_where_they_are_enough() -> None:
    analysis, _ = linted(EXAMPLES / "llamafactory/llama3_8b_full_sft.yaml", "A100-80GB")
    run, tight = analysis.runs[0], analysis.estimates[0]._replace(verdict="tight", fits_on=())
    growing = replace(run, {"stack.expandable_segments": True})

    def titles(of: Run, after: str) -> list[str]:
        told = advice(of, tight, lambda tried: tight._replace(verdict=after if tried == growing else "out_of_memory"))
        assert not any(fix.edits or fix.safe for fix in told)
        return [fix.title for fix in told]

    assert titles(run, "fits") == ["set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where the run is started"]
    assert titles(run, "tight") == titles(growing, "fits") == []


def test_segments_that_grow_are_told_with_the_changes_that_fit_then(monkeypatch: pytest.MonkeyPatch) -> None:
    analysis, _ = linted(EXAMPLES / "llamafactory/llama3_8b_full_sft.yaml", "A100-80GB")
    run, before = analysis.runs[0], analysis.estimates[0]

    def riskless(of: Run, found: Estimate, hooks: SearchHooks) -> Plan | None:
        step = ProposedChange("a smaller batch", {})
        return Plan((step,), of, found) if of.stack.expandable_segments else None

    monkeypatch.setattr(plan_options, "riskless", riskless)
    (told,) = plan_options._elsewhere(run, before, SearchHooks(estimate))
    assert "expandable_segments" in told.title and "a smaller batch" in told.note and not told.edits
    assert list(plan_options._elsewhere(replace(run, {"stack.expandable_segments": True}), before, SearchHooks())) == []


def test_an_engine_that_sleeps_on_the_card_keeps_segments_as_they_are() -> None:
    colocated = {"rollout__generator": "vllm_colocate", "rollout__share": 0.5}
    assert can_grow_segments(small_run())
    assert not can_grow_segments(small_run(**colocated, rollout__sleep_level=1))
    assert not can_grow_segments(small_run(stack__expandable_segments=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"precision.compute": "float32"},  # DeepSpeed's fp32 is another run
        {"model.quantization.method": "bnb"},  # ZeRO-3 cannot shard what bitsandbytes packed in bytes
        {"parallelism.world_size": UNKNOWN},
        {"parallelism.pipeline_parallel_size": 2},
    ],
)
def test_no_number_of_cards_is_named_where_memlint_cannot_say_how_they_would_share(changes: dict[str, object]) -> None:
    analysis, _ = linted(EXAMPLES / "llamafactory/llama3_8b_full_sft.yaml", "A100-80GB")
    told = advice(replace(analysis.runs[0], changes), analysis.estimates[0], estimate)

    assert [fix.title for fix in told if "cards" in fix.title] == []


def test_nothing_is_said_of_hardware_where_the_run_cannot_be_sharded() -> None:
    analysis, _ = linted(EXAMPLES / "llamafactory/llama3_8b_full_sft.yaml", "A100-80GB")
    run = replace(analysis.runs[0], {"parallelism.tensor_parallel_size": 2})

    assert not any("ZeRO" in fix.title for fix in advice(run, analysis.estimates[0], estimate))


def test_plans_solve_the_most_severe_finding_of_a_run() -> None:
    """Law 6 allows a plan what is milder than that: a warning that stands before the error does not decide."""
    place = Location("f.yaml", 1, 1, 1, 2)
    warning, error = (Finding(rule, "x", level, "m", place) for rule, level in (("A", "warning"), ("B", "error")))
    analysis = Analysis(load(b"a: 1\n", "f.yaml")[0], None, None, None, (), ())
    found = (Found(warning, 0, plan=True), Found(error, 0, plan=True), Found(error._replace(rule="C"), 0))
    main = main_finding(analysis._replace(found=found), 0)
    assert main is not None and main.finding.rule == "B"
    assert main_finding(analysis, 0) is None


def test_a_fix_of_an_export_has_no_price_of_training() -> None:
    text = "model_name_or_path: Qwen/Qwen2.5-1.5B\nadapter_name_or_path: a\nquantization_bit: 4\nexport_dir: out\n"
    analyser = uniform_analyser(Engine(shipped()), {}, workspace=in_memory({"merge.yaml": text + "template: qwen\n"}))
    (fix,) = (fix for one in analyser.analyse("merge.yaml").findings if one.rule == "LLF004" for fix in one.fixes)
    assert (fix.speed, fix.quality) == (1.0, "none")


def _ending_at(gib: int) -> Estimate:
    return estimate(small_run(TINY))._replace(device_high_bytes=gib << 30, device_unclamped_high_bytes=gib << 30)


def test_one_card_is_told_of_with_what_several_need_more() -> None:
    alone, on_all = _ending_at(18), _ending_at(32)
    more = more_on_several(alone, on_all, 4)
    assert more.startswith("with the same changes each of the 4 cards needs up to 32.0 GiB, 14.0 more")
    assert more_on_several(alone, _ending_at(17), 4) == ""
