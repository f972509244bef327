"""A null where a framework's parser checks no types: what ends the run, and what is taken as None."""

import pytest

from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine

LLAMAFACTORY = """model_name_or_path: meta-llama/Meta-Llama-3-8B
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
template: llama3
output_dir: out
"""
TRL = """model_name_or_path: meta-llama/Meta-Llama-3-8B
dataset_name: trl-lib/Capybara
dataset_text_field: text
per_device_train_batch_size: 1
gradient_checkpointing: true
bf16: true
output_dir: out
"""


def said(text: str, key: str) -> list[tuple[str, str]]:
    workspace = in_memory({"run.yaml": f"{text}{key}: null\n", "run.sh": "trl sft --config run.yaml\n"})
    analysis = Engine(()).analyse(workspace.documents("run.yaml")[0], workspace.context())
    return [(one.rule, one.severity) for one in analysis.findings]


@pytest.mark.parametrize("key", ["pref_beta", "pref_loss", "vllm_maxlen", "badam_mode"])
def test_llamafactory_takes_what_this_run_does_not_compare(key: str) -> None:
    assert [severity for _, severity in said(LLAMAFACTORY, key)] == ["info"]


@pytest.mark.parametrize("key", ["cutoff_len", "lora_rank", "learning_rate", "lr_scheduler_type", "val_size"])
def test_what_llamafactory_compares_ends_the_run(key: str) -> None:
    assert [severity for _, severity in said(LLAMAFACTORY, key)] == ["error"]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("learning_rate", [("CFG002", "error")]),
        ("eval_strategy", [("CFG002", "error")]),
        ("adam_beta1", [("CFG002", "error")]),
        ("max_grad_norm", []),
        ("lr_scheduler_kwargs", []),
    ],
)
def test_training_arguments(key: str, found: list[tuple[str, str]]) -> None:
    assert said(TRL, key) == found


@pytest.mark.parametrize(
    ("keys", "key", "ends"),
    [
        ("", "save_steps", True),
        ("save_strategy: epoch\n", "save_steps", False),
        ("logging_strategy: 'no'\n", "logging_steps", False),
        ("logging_strategy: epoch\neval_strategy: steps\n", "logging_steps", True),
        ("logging_strategy: epoch\neval_strategy: steps\neval_steps: 5\n", "logging_steps", False),
    ],
)
@pytest.mark.parametrize("config", [TRL, LLAMAFACTORY])
def test_a_number_of_steps_is_compared_where_its_strategy_counts_steps(
    config: str, keys: str, key: str, ends: bool
) -> None:
    assert ("error" in [severity for _, severity in said(config + keys, key)]) is ends


def test_a_script_that_reads_the_file_by_itself_may_mean_anything_by_null() -> None:
    script = "import yaml\nconfig = yaml.safe_load(open('run.yaml'))\n"
    workspace = in_memory({"run.yaml": f"{TRL}lr: 3\nlearning_rate: null\n", "run.py": script})
    analysis = Engine(()).analyse(workspace.documents("run.yaml")[0], workspace.context())

    assert [one.rule for one in analysis.findings if one.severity == "error"] == []
