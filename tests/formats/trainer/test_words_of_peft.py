"""Files whose keys are PEFT's own words, which no command line of transformers or TRL takes."""

from __future__ import annotations

import pytest

import memlint
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse

FLAT = """\
model_name: Qwen/Qwen2.5-7B-Instruct
max_seq_length: 4096
load_in_4bit: true
gradient_checkpointing: unsloth
r: 8
lora_alpha: 16
target_modules: [q_proj, v_proj]
per_device_train_batch_size: 1
num_train_epochs: 3
output_dir: o
learning_rate: 2.0e-4
gradient_accumulation_steps: 4
max_steps: 1000
"""


def test_lora_config_by_its_own_words() -> None:
    run = memlint.estimate(FLAT, path="configs/sft.yaml").run
    assert (run.method.kind, run.method.rank) == ("lora", 8)
    assert run.checkpointing.mode == "full"


def test_a_script_reads_such_a_file() -> None:
    workspace = in_memory({"configs/sft.yaml": FLAT})
    (document,) = workspace.documents("configs/sft.yaml")
    found = [one.rule for one in analyse(document, workspace.context(), ()).findings]
    assert [rule for rule in found if not rule.startswith("MEM")] == ["CFG013"]


def test_trl_says_it_otherwise() -> None:
    text = FLAT.replace("r: 8", "lora_r: 8\nuse_peft: true").replace("target_modules", "lora_target_modules")
    run = memlint.estimate(text.replace("unsloth", "true"), path="sft.yaml").run
    assert (run.method.kind, run.method.rank) == ("lora", 8)


@pytest.mark.parametrize("switch", ["use_ia3", "use_prompt_tuning"])
def test_another_adapter_is_not_full_training(switch: str) -> None:
    text = "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 1\noutput_dir: o\nbf16: true\n"
    assert memlint.estimate(text, path="sft.yaml").run.method.kind == "full"
    kind = memlint.estimate(f"{text}use_lora: false\n{switch}: true\n", path="sft.yaml").run.method.kind
    assert kind not in ("full", "lora")
