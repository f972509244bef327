"""What is not said, because what it would rest on is an assumption or stands in another file."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memlint.hardware.catalog import find
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.ruleset.shipped import shipped

ZERO3_OFFLOADED = """\
{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
 "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}}
"""
SMALL = "--model_name_or_path Qwen/Qwen2.5-1.5B --per_device_train_batch_size 1 --max_length 1024 --bf16 True"
SFT = """\
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser
script, args, model = TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config()
SFTTrainer(model=model.model_name_or_path, args=args).train()
"""


def rules(files: Mapping[str, str], path: str, **facts: object) -> set[str]:
    workspace = in_memory(files)
    engine = Engine(tuple(shipped()))
    found = (engine.analyse(one, workspace.context()._replace(**facts)) for one in workspace.documents(path))
    return {finding.rule for one in found for finding in one.findings}


@pytest.mark.parametrize(("card", "is_said"), [("a100", False), ("a100-80gb", True), ("h100", True)])
def test_an_offload_may_be_needed_on_the_smaller_of_two_cards(card: str, is_said: bool) -> None:
    """A job's `a100` has 40 or 80 GB: what the larger one holds, the smaller may not."""
    script = (
        f"#!/bin/bash\n#SBATCH --gres=gpu:{card}:4\ntorchrun --nproc_per_node 4 sft.py {SMALL} --deepspeed z3.json\n"
    )
    found = rules({"go.sh": script, "sft.py": SFT, "z3.json": ZERO3_OFFLOADED}, "go.sh")
    assert ("OFF001" in found) == is_said


@pytest.mark.parametrize(("at_commits", "is_said"), [((), True), (("trl",), False), (("transformers",), False)])
def test_a_commit_states_a_release(at_commits: tuple[str, ...], is_said: bool) -> None:
    config = (
        "model_name_or_path: Qwen/Qwen2.5-1.5B\noutput_dir: out\ndataset_text_field: text\n"
        "per_device_train_batch_size: 8\nmax_length: 4096\nuse_peft: true\nbf16: true\n"
    )
    found = rules({"sft.yaml": config}, "sft.yaml", gpu=find("RTX4090"), gpus=1, at_commits=frozenset(at_commits))
    assert ("MEM013" in found) == is_said


def test_a_key_in_the_wrong_section_is_told_once() -> None:
    """The file wants its weights gathered: that it says so in the wrong place is the finding."""
    zero3 = '{"train_micro_batch_size_per_gpu": 1, "stage3_gather_16bit_weights_on_model_save": true,\n'
    zero3 += ' "bf16": {"enabled": true}, "zero_optimization": {"stage": 3}}\n'
    config = (
        "model_name_or_path: Qwen/Qwen2.5-1.5B\noutput_dir: out\nper_device_train_batch_size: 1\n"
        "learning_rate: 1.0e-5\nbf16: true\ndeepspeed: z3.json\n"
    )
    files = {"sft.yaml": config, "z3.json": zero3}
    found = rules(files, "sft.yaml", gpus=2)
    assert "CFG001" in found and "SAV002" not in found
    without = zero3.replace(' "stage3_gather_16bit_weights_on_model_save": true,', "")
    assert "SAV002" in rules({**files, "z3.json": without}, "sft.yaml", gpus=2)


def test_a_model_that_stands_in_the_programs_config_is_said_there() -> None:
    program = """\
import yaml
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
config = yaml.safe_load(open("conf.yaml"))
model = AutoModelForCausalLM.from_pretrained(config["model"])
Trainer(model=model, args=TrainingArguments("out", per_device_train_batch_size=4, bf16=True)).train()
"""
    files = {"train.py": program, "conf.yaml": "model: our-team/internal\nepochs: 3\n"}
    assert "MOD001" not in rules(files, "train.py")
    named = program.replace('config["model"]', '"our-team/internal"')
    assert "MOD001" in rules({**files, "train.py": named}, "train.py")


COPY = {
    "src/llamafactory/hparams/finetuning_args.py": """\
from dataclasses import dataclass
@dataclass
class FinetuningArguments:
    finetuning_type: str = "lora"
    freeze_language_model: bool = False
""",
    "src/llamafactory/train/tuner.py": """\
def run(config):
    args = config["args"]
    judges = args.pop("judges", None)
    return judges
""",
}
FROZEN = """\
model_name_or_path: Qwen/Qwen2.5-VL-3B-Instruct
stage: sft
do_train: true
finetuning_type: full
freeze_vision_tower: true
freeze_multi_modal_projector: true
freeze_language_model: true
dataset: demo
template: qwen2_vl
bf16: true
output_dir: out
judges: [a, b]
"""


def test_a_copy_of_llamafactory_may_take_a_key_out_and_train_a_part_of_its_own() -> None:
    assert not {"CFG001", "PEF027"} & rules({"run.yaml": FROZEN, **COPY}, "run.yaml")
    assert {"CFG001", "PEF027"} <= rules({"run.yaml": FROZEN}, "run.yaml")


@pytest.mark.parametrize(("program", "is_said"), [("-m verl.trainer.main_ppo", True), ("-m agents.train", False)])
def test_how_long_the_sequences_of_another_program_get_is_its_to_say(program: str, is_said: bool) -> None:
    """An agent's turns fill the engine's context, whatever one prompt and one completion have."""
    command = (
        f"python {program} algorithm.adv_estimator=grpo agents.turns=5 trainer.n_gpus_per_node=8 "
        "data.train_batch_size=64 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.name=vllm "
        "data.max_prompt_length=512 data.max_response_length=512 actor_rollout_ref.rollout.max_model_len=12800\n"
    )
    assert ("ROL004" in rules({"go.sh": command}, "go.sh")) == is_said
