"""An error is one where nothing that it rests on is missing; else it is a warning that names what is."""

from __future__ import annotations

from typing import Any

import pytest

import memlint.repository.shipped_examples as shipped_examples
from memlint.findings import Finding, Location
from memlint.formats import trainer, verl
from memlint.hardware import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.ruleset.evidence import Case, as_far_as_known, if_it_starts
from memlint.ruleset.shipped import shipped
from memlint.source import load

LLAMAFACTORY = """model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
template: qwen
output_dir: out
{}
"""
VERL = (
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=64 "
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B actor_rollout_ref.actor.ppo_mini_batch_size=128 "
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1\n"
)
COPY_OF_VERL = (
    "class Trainer:\n    def _validate_config(self):\n"
    "        assert config.data.train_batch_size >= config.actor_rollout_ref.actor.ppo_mini_batch_size\n"
)
HPARAMS = "src/llamafactory/hparams/finetuning_args.py"
DECLARES = "@dataclass\nclass FinetuningArguments:\n    finetuning_type: str = 'lora'\n    lora_rank: int = 8\n"


def findings(name: str, files: dict[str, str], **facts: Any) -> list[Finding]:
    workspace = in_memory(files)
    document = workspace.documents(name)[0]
    return list(analyse(document, workspace.context(**facts), tuple(shipped())).findings)


def only(found: list[Finding], rule: str) -> Finding:
    (one,) = (item for item in found if item.rule == rule)
    return one


def test_what_a_release_refuses_is_an_error_without_a_copy_of_the_framework() -> None:
    found = only(findings("run.sh", {"run.sh": VERL}), "CFG008")
    assert (found.severity, found.where) == ("error", "")


@pytest.mark.parametrize(
    ("changed", "severity"), [("", "error"), ("# of our own\n", "warning")], ids=["unchanged", "changed"]
)
def test_of_an_unchanged_copy_it_is_an_error(changed: str, severity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, data = "verl/trainer/ppo/ray_trainer.py", COPY_OF_VERL.encode()
    known = {shipped_examples.mark(place, shipped_examples._blob(data)): "verl"}
    monkeypatch.setattr(shipped_examples, "_frameworks", lambda: known)
    files = {"run.sh": VERL, place: COPY_OF_VERL + changed}
    assert only(findings("run.sh", files), "CFG008").severity == severity


def test_of_a_copy_it_is_a_warning_that_says_so() -> None:
    files = {"run.sh": VERL, "verl/trainer/ppo/ray_trainer.py": COPY_OF_VERL}
    found = only(findings("run.sh", files), "CFG008")
    assert found.severity == "warning"
    assert found.message.endswith("(where the copy of verl in this repository checks what its releases check)")


@pytest.mark.parametrize(
    ("key", "rule", "copy", "severity"),
    [
        ("lora_rnk: 8", "CFG001", "", "error"),
        ("lora_rnk: 8", "CFG001", DECLARES, "error"),  # the copy declares no such key, so its parser refuses it
        ("learning_rate: fast", "CFG002", "", "error"),
        ("learning_rate: fast", "CFG002", DECLARES, "warning"),
    ],
)
def test_a_copy_that_shows_the_check_is_evidence(key: str, rule: str, copy: str, severity: str) -> None:
    files = {"sft.yaml": LLAMAFACTORY.format(key), **({HPARAMS: copy} if copy else {})}
    assert only(findings("sft.yaml", files), rule).severity == severity


def test_a_check_that_the_copy_makes_itself_is_an_error() -> None:
    key = "pref_loss: ipo\ndpo_label_smoothing: 0.1"
    refuses = (
        '    def __post_init__(self):\n        raise ValueError("`dpo_label_smoothing` is only valid for sigmoid.")\n'
    )
    config = LLAMAFACTORY.format(key).replace("stage: sft", "stage: dpo")
    assert only(findings("dpo.yaml", {"dpo.yaml": config, HPARAMS: DECLARES + refuses}), "LLF017").severity == "error"
    other = '    def __post_init__(self):\n        raise ValueError("`use_llama_pro` is only valid for Freeze.")\n'
    said = findings("dpo.yaml", {"dpo.yaml": config, HPARAMS: DECLARES + other})
    assert "LLF017" not in {one.rule for one in said}


DEEPSPEED = '"zero_optimization":\n  "stage": 2,\n  "overlap_comm": true,\n'


def test_a_lone_yaml_of_deepspeed_waits_for_a_program_that_loads_it() -> None:
    """DeepSpeed reads JSON. A program that calls it may load anything."""
    (found, *_) = findings("ds.yaml", {"ds.yaml": DEEPSPEED})
    assert (found.rule, found.severity) == ("CFG002", "warning")
    assert found.where == "a program loads this YAML and hands it to DeepSpeed as it stands"
    program = "import deepspeed\nengine = deepspeed.initialize(model=model, config=config)\n"
    (found, *_) = findings("ds.yaml", {"ds.yaml": DEEPSPEED, "train.py": program})
    assert found.severity == "error"
    (found, *_) = findings("ds.json", {"ds.json": '{"zero_optimization": {"stage": "2,"}}'})
    assert found.severity == "error"


@pytest.mark.parametrize(("stage", "severity"), [("2", "warning"), ('"auto"', "error")])
def test_a_comment_in_a_lone_json_waits_for_a_reader_that_refuses_it(stage: str, severity: str) -> None:
    """DeepSpeed's own parser, hjson, takes comments; `auto` is a word of transformers and accelerate."""
    text = f'{{"train_batch_size": 8, "zero_optimization": {{"stage": {stage}}}}}  // stage 2\n'
    found = only(findings("ds.json", {"ds.json": text}), "SRC001")
    assert found.severity == severity


def case(format_: object, name: str = "a.yaml", has_own_reader: bool = False) -> Case:
    return Case(format_, load(b"a: 1\n", name)[0], in_memory({}).context(), has_own_reader)


def finding(rule: str, severity: str = "error", where: str = "") -> Finding:
    return Finding(rule, "a/b", severity, "words", Location("a.yaml", 1, 1, 1, 1), where=where)


def test_a_format_says_a_condition_itself() -> None:
    found = as_far_as_known(finding("CFG001", where="no fork reads the file"), case(verl.format))
    assert (found.severity, found.message) == ("warning", "words (where no fork reads the file)")


def test_figures_of_a_file_that_a_script_reads_hold_under_a_condition() -> None:
    said = as_far_as_known(finding("MEM001"), case(trainer.format, has_own_reader=True))
    assert said.severity == "warning"
    assert said.where == "the script that reads this file trains what its keys say"


@pytest.mark.parametrize("severity", ["warning", "info"])
def test_only_errors_are_lowered(severity: str) -> None:
    given = finding("MEM001", severity)
    assert as_far_as_known(given, case(trainer.format, has_own_reader=True)) == given


@pytest.mark.parametrize(("batch", "severities"), [("", []), ("per_device_train_batch_size: 16\n", ["warning"])])
def test_a_batch_that_an_own_reader_may_call_otherwise_is_not_counted(batch: str, severities: list[str]) -> None:
    config = f"model_name_or_path: Qwen/Qwen2.5-7B\nlearning_rate: 1.0e-5\nmax_length: 4096\noutput_dir: out\n{batch}"
    reader = "import yaml\nsettings = yaml.safe_load(open(path))\nrows = settings['rows']\n"
    files = {
        "sft.yaml": f"{config}bf16: true\nrows: 2\n",
        "run.sh": "python train.py --config sft.yaml\n",
        "train.py": reader,
    }
    found = findings("sft.yaml", files, gpu=find("RTX4090"), gpus=1)
    assert "CFG013" in {one.rule for one in found}
    assert [one.severity for one in found if one.rule == "MEM001"] == severities


def test_a_release_that_a_key_of_older_ones_bounds_is_not_known() -> None:
    config = (
        "model_name_or_path: Qwen/Qwen2.5-7B\nlearning_rate: 1.0e-5\noutput_dir: out\nper_device_train_batch_size: 1\n"
        "auto_find_batch_size: true\ndeepspeed: z3.json\n"
    )
    stage = '{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto"}'
    newest = only(findings("a.yaml", {"a.yaml": config, "z3.json": stage}), "PAR005")
    assert newest.severity == "error"
    older = config + "evaluation_strategy: steps\n"
    found = only(findings("a.yaml", {"a.yaml": older, "z3.json": stage}), "PAR005")
    assert (found.severity, found.where) == ("warning", "transformers is 4.45 or newer")


@pytest.mark.parametrize(
    ("stop", "severity"),
    [
        (finding("CFG001"), "warning"),
        (finding("CFG001", "warning"), "error"),
        (finding("MEM006")._replace(name="memory/weights-and-states-over-the-card"), "error"),
        (finding("TRN011")._replace(name="trainer/metric-that-nobody-computes"), "error"),
    ],
    ids=["an error", "a warning", "another about memory", "one after the first evaluation"],
)
def test_a_run_that_another_error_keeps_from_starting_does_not_get_as_far_as_its_memory(
    stop: Finding, severity: str
) -> None:
    over = finding("MEM001")._replace(name="memory/over-the-card")
    said = if_it_starts(over, [stop, over])
    assert (said.severity, bool(said.where)) == (severity, severity == "warning")
    assert if_it_starts(stop, [stop, over]) == stop


def test_the_warning_names_what_keeps_the_run_from_starting() -> None:
    config = LLAMAFACTORY.format("quantization_bit: 4").replace("lora", "full").replace("1.5B", "72B")
    found = findings("sft.yaml", {"sft.yaml": config}, gpu=find("RTX4090"), gpus=1)
    stops = sorted({one.rule for one in found if one.severity == "error"})
    assert stops
    memory = [one for one in found if one.name.startswith("memory/") and one.severity == "warning"]
    assert [one.message.endswith(f"(with these values, once {stops[0]} is mended)") for one in memory]
    assert all(stops[0] in one.where for one in memory if "out of memory" in one.message)


@pytest.mark.parametrize(
    ("data", "severity"),
    [("datasets:\n", "warning"), ("datasets: [{path: a/b, type: alpaca}]\n", "error"), ("", "error")],
    ids=["bare", "named", "none"],
)
def test_a_file_that_a_program_completes_may_train_something_else(data: str, severity: str) -> None:
    config = (
        "base_model: NousResearch/Meta-Llama-3-8B\nsequence_len: 4096\nmicro_batch_size: 8\noptimizer: adamw_torch\n"
        f"learning_rate: 0.0002\nbf16: true\nnum_epochs: 1\noutput_dir: out\npad_to_sequence_len: true\n{data}"
    )
    found = only(findings("base.yml", {"base.yml": config}, gpu=find("RTX4090"), gpus=1), "MEM001")
    assert found.severity == severity
    assert ("fills in `datasets`" in found.where) is (severity == "warning")


KEYS_OF_A_FORK = "hop: 1\nkge_model_path: a/b\nnum_query_tokens: 8\n"


@pytest.mark.parametrize(("keys", "severity"), [(KEYS_OF_A_FORK, "warning"), ("hop: 1\n", "error")])
def test_a_slip_among_several_keys_of_a_fork_may_be_no_slip(keys: str, severity: str) -> None:
    found = findings("sft.yaml", {"sft.yaml": LLAMAFACTORY.format(f"num_train_epoch: 2\n{keys}")})
    (slip,) = (one for one in found if "num_train_epoch" in one.message)
    assert (slip.rule, slip.severity) == ("CFG001", severity)


@pytest.mark.parametrize(("keys", "severity"), [(KEYS_OF_A_FORK, "warning"), ("", "error")])
def test_figures_of_a_file_for_a_fork_hold_under_a_condition(keys: str, severity: str) -> None:
    config = LLAMAFACTORY.format(keys).replace("lora", "full").replace("1.5B", "72B")
    found = only(findings("sft.yaml", {"sft.yaml": config}, gpu=find("RTX4090"), gpus=1), "MEM001")
    assert found.severity == severity
    assert ("not for a fork" in found.where) is (severity == "warning")


@pytest.mark.parametrize(("size", "severity"), [('"train_batch_size": 8, ', "error"), ("", "warning")])
def test_a_file_without_a_batch_size_waits_for_a_program_that_adds_one(size: str, severity: str) -> None:
    schedule = '"scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0}}'
    found = only(
        findings("ds.json", {"ds.json": f'{{{size}"zero_optimization": {{"stage": 2}}, {schedule}}}'}), "CFG004"
    )
    assert (found.severity, "adds a batch size" in found.where) == (severity, not size)
