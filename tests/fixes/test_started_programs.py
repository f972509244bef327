"""Plans for commands whose program says the values in its own code, or whose launch file is named beside options."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.findings import Edit, Fix
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin
from memlint.source.document import Document

GRPO = """from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(
    output_dir="o",
    per_device_train_batch_size=8,
    gradient_accumulation_steps=4,
    beta=0.04,
    num_generations=8,
    max_prompt_length=1024,
    max_completion_length=2048,
    use_vllm=True,
    vllm_mode="colocate",
    vllm_gpu_memory_utilization=0.5,
    bf16=True,
    gradient_checkpointing=True,
)
GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", reward_funcs=len, args=args, train_dataset=data).train()
"""
ZERO3 = """compute_environment: LOCAL_MACHINE
deepspeed_config:
  offload_optimizer_device: none
  offload_param_device: none
  zero3_init_flag: true
  zero_stage: 3
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 4
"""
LOOP = """import deepspeed
from transformers import AutoModelForCausalLM

config = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 1},
}
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for batch in loader:
    inputs = tokenizer(batch["text"], padding="max_length", truncation=True, max_length=2048)
    loss = engine(**inputs, labels=inputs["input_ids"]).loss
    engine.backward(loss)
    engine.step()
"""


def first_plan(folder: Path, name: str, card: str) -> tuple[Fix, dict[str, str]]:
    """The first plan for the file's run, and the files with its patches."""
    facts = {"gpu": find(card), "gpu_origin": Origin("command_line")}
    found = uniform_analyser(Engine(shipped()), facts, cwd=str(folder)).analyse(str(folder / name)).findings
    fix = next(fix for one in found if one.rule in ("MEM001", "MEM002") for fix in one.fixes if fix.patches)
    paths = dict.fromkeys(patch.path for patch in fix.patches)
    texts = {path: (folder / path).read_text() for path in paths}
    return fix, {path: apply(texts[path], (one for one in fix.patches if one.path == path)) for path in paths}


def test_a_plan_for_a_command_is_written_into_its_program_and_its_launch_file(tmp_path: Path) -> None:
    (tmp_path / "grpo.py").write_text(GRPO)
    (tmp_path / "zero3.yaml").write_text(ZERO3)
    (tmp_path / "run.sh").write_text("accelerate launch --num_processes 4 --config_file zero3.yaml grpo.py\n")

    fix, changed = first_plan(tmp_path, "run.sh", "A100-40GB")

    assert fix.verdict_after == "fits" and fix.quality == "none"
    assert changed == {
        "grpo.py": GRPO.replace("checkpointing=True,\n", "checkpointing=True,\n    vllm_enable_sleep_mode=True,\n"),
        "zero3.yaml": ZERO3.replace("optimizer_device: none", "optimizer_device: cpu"),
    }


def test_a_loop_of_its_own_has_its_plan_in_its_dictionary(tmp_path: Path) -> None:
    """One number is DeepSpeed's and the run's batch, and checkpointing is a call that no edit makes."""
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "run.sh").write_text("deepspeed --num_gpus 4 train.py\n")

    for name in ("run.sh", "train.py"):
        fix, changed = first_plan(tmp_path, "run.sh", "A100-40GB")
        assert fix.verdict_after == "fits", name
        (text,) = changed.values()
        assert '"train_micro_batch_size_per_gpu": 1,\n    "gradient_accumulation_steps": 8,' in text
        assert '{"stage": 2, "offload_optimizer": {"device": "cpu"}}' in text


def loop() -> Document:
    return in_memory({"/train.py": LOOP}).documents("/train.py")[0]


def test_checkpointing_of_a_loop_is_told_as_a_call() -> None:
    edit = Edit(loop().path, ("gradient_checkpointing",), "set", True)
    with pytest.raises(CannotEdit, match="gradient_checkpointing_enable"):
        patches(loop(), [edit])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"stage": 1}', '{"stage": 1, "overlap_comm": True}'),
        ('{"stage": 1,}', '{"stage": 1, "overlap_comm": True}'),
        ("{'stage': 1}", "{'stage': 1, 'overlap_comm': True}"),
        ('{\n        "stage": 1,\n    }', '{\n        "stage": 1,\n        "overlap_comm": True,\n    }'),
        ('{\n        "stage": 1\n    }', '{\n        "stage": 1,\n        "overlap_comm": True\n    }'),
    ],
)
def test_a_dictionary_in_a_script_gets_a_new_key(old: str, new: str) -> None:
    code = LOOP.replace('{"stage": 1}', old)
    document = in_memory({"/train.py": code}).documents("/train.py")[0]
    edit = Edit(document.path, ("deepspeed", "zero_optimization", "overlap_comm"), "set", True)
    assert apply(code, patches(document, [edit])).replace(", }", "}") == LOOP.replace('{"stage": 1}', new)


def test_a_dictionary_with_a_comment_behind_its_last_key_stays() -> None:
    code = LOOP.replace('{"stage": 1}', '{\n    "stage": 1,  # shards\n}')
    document = in_memory({"/train.py": code}).documents("/train.py")[0]
    edit = Edit(document.path, ("deepspeed", "zero_optimization", "overlap_comm"), "set", True)
    with pytest.raises(CannotEdit, match="comment"):
        patches(document, [edit])


UNSLOTH = """from unsloth import FastLanguageModel
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Meta-Llama-3.1-8B", load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=16, use_gradient_checkpointing=False)
args = SFTConfig(output_dir="o", per_device_train_batch_size=1, max_seq_length=8192, optim="adamw_8bit")
SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=data, args=args).train()
"""


def test_four_bits_are_one_switch_of_unsloth(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNSLOTH)
    fix, changed = first_plan(tmp_path, "train.py", "RTX3060-12GB")
    assert "4-bit base (QLoRA)" in fix.title and "load_in_4bit=True" in changed["train.py"]


DPO = """from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
ref_model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
args = DPOConfig(output_dir="o", max_length=1024, precompute_ref_log_probs=True, bf16=True)
DPOTrainer(model, {}args=args, train_dataset=data).train()
"""


@pytest.mark.parametrize(("given", "reference"), [("", "precomputed"), ("ref_model=ref_model, ", "copy")])
def test_a_reference_that_a_script_gives_stays_beside_the_model(tmp_path: Path, given: str, reference: str) -> None:
    (tmp_path / "train.py").write_text(DPO.format(given))
    outcome = uniform_analyser(Engine(shipped()), {}, cwd=str(tmp_path)).analyse(str(tmp_path / "train.py"))
    (run,) = outcome.analyses[0].runs
    assert run.method.reference_model == reference
