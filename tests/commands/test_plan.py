"""`memlint plan`: one numbering with `check` and `fix`, goals, keys that stay, patches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from memlint.report.plans import render
from tests.commands.running import ROOT, memlint, write

FULL = (ROOT / "examples" / "llamafactory" / "llama3_8b_full_sft.yaml").read_text(encoding="utf-8")
LONG = (ROOT / "examples" / "llamafactory" / "qwen2_5_1_5b_eager_long.yaml").read_text(encoding="utf-8")
FOUR = ("--gpu", "RTX4090", "--gpus", "4", "--isolated")
EIGHT = ("--gpu", "A100-80GB", "--gpus", "8", "--isolated")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {"full.yaml": FULL, "long.yaml": LONG})
    return tmp_path


def planned(folder: Path, name: str, *arguments: str) -> dict[str, Any]:
    (row,) = json.loads(memlint(folder, "plan", name, "--format", "json", *arguments).out)["runs"]
    assert isinstance(row, dict)
    return row


@pytest.mark.parametrize("name", ["full.yaml", "long.yaml"])
@pytest.mark.parametrize("card", [FOUR, EIGHT], ids=["four", "eight"])
def test_check_plan_and_fix_number_the_same_plans(folder: Path, name: str, card: tuple[str, ...]) -> None:
    plans = planned(folder, name, *card)["plans"]
    found = json.loads(memlint(folder, "check", name, "--format", "json", *card).out)["findings"]
    (finding,) = [one for one in found if one["rule"] in ("MEM001", "MEM002", "MEM005", "MEM010")]

    assert [fix["title"] for fix in finding["fixes"] if fix["edits"]] == [plan["title"] for plan in plans]
    for number in range(1, len(plans) + 1):
        shown = memlint(folder, "plan", name, "--diff", str(number), *card)
        written = memlint(folder, "fix", name, "--plan", str(number), "--diff", *card)
        assert shown.out == written.out != ""


def test_there_is_no_plan_of_a_higher_number(folder: Path) -> None:
    done = memlint(folder, "plan", "full.yaml", "--diff", "9", *FOUR)
    assert (done.code, done.out) == (1, "")
    assert "no plan 9" in done.err


def test_several_cards_have_a_plan_without_a_risk_from_a_bare_config(folder: Path) -> None:
    first = planned(folder, "full.yaml", *FOUR)["plans"][0]
    assert first["quality"] == "none"
    assert "ZeRO-3" in first["title"]


def test_kernels_are_found_before_halves_are_cut(folder: Path) -> None:
    first = planned(folder, "long.yaml", *EIGHT)["plans"][0]
    assert {"attention.implementation", "loss.kind"} <= set(first["changes"])
    assert first["speed"] < 1


def test_unsafe_takes_the_least_risky_plan_first(folder: Path) -> None:
    told = memlint(folder, "fix", "full.yaml", "--unsafe", *EIGHT).err
    assert "LoRA" not in told
    assert "zero_optimization: {stage: 2" in (folder / "full.yaml").read_text()


def test_kept_keys_are_in_no_plan(folder: Path) -> None:
    plans = planned(folder, "long.yaml", "--keep", "flash_attn", "--keep", "cutoff_len", *EIGHT)["plans"]
    assert plans
    assert not any({"attention.implementation", "sequence.length"} & set(plan["changes"]) for plan in plans)


def test_the_largest_batch_keeps_the_global_batch(folder: Path) -> None:
    (plan,) = planned(folder, "full.yaml", "--goal", "batch", *EIGHT)["plans"]
    changes = plan["changes"]
    assert changes["batch.micro_batch_size"] * changes["batch.gradient_accumulation_steps"] == 16
    assert plan["quality"] == "none" and plan["verdict_after"] == "fits"


def test_a_goal_that_nothing_reaches_is_said(folder: Path) -> None:
    write(folder, {"whole.yaml": FULL.replace("gradient_accumulation_steps: 8", "gradient_accumulation_steps: 1")})
    told = memlint(folder, "plan", "whole.yaml", "--goal", "batch", *EIGHT).out
    assert "no plan without a risk for the result has a larger batch in a forward" in told
    assert not planned(folder, "whole.yaml", "--goal", "batch", *EIGHT)["goal"]["reached"]
    assert planned(folder, "full.yaml", "--goal", "batch", *EIGHT)["goal"] == {"name": "batch", "reached": True}


def test_a_verdict_that_nobody_knows_has_its_reason_and_a_slow_plan_its_price() -> None:
    peak = {"figure": 30 << 30, "low": 29 << 30, "high": 31 << 30, "unclamped_high": 31 << 30, "usable": 24 << 30}
    plan = {"title": "paged AdamW", "after": peak, "speed": 3.25, "quality": "none", "note": ""}
    row = {
        "path": "a.yaml",
        "verdict": "unknown",
        "peak": peak,
        "budget_bytes": 24 << 30,
        "fits_on": [],
        "plans": [plan],
    }
    told = render([{**row, "reasons": {"parallelism.engine": "launcher not known: 20 GiB or 30 GiB"}}])
    assert "unknown: launcher not known: 20 GiB or 30 GiB; the card has 24.00 GiB" in told
    assert "a step takes about 3.2 times as long, no risk for the result" in told


def test_who_does_not_say_how_many_cards_there_are_is_asked(tmp_path: Path) -> None:
    said = "or say how many cards there are with --gpus N; then sharding and host memory are tried as well"
    code = "from trl import SFTConfig, SFTTrainer\nargs = SFTConfig(bf16=True, max_length=2048)\n"
    write(tmp_path, {"train.py": f"{code}SFTTrainer(model='meta-llama/Llama-2-7b-hf', args=args).train()\n"})
    assert said in memlint(tmp_path, "plan", "train.py", "--gpu", "RTX4090", "--isolated").out
    assert said not in memlint(tmp_path, "plan", "train.py", *FOUR).out


def test_a_plan_for_a_run_without_a_verdict_is_what_fix_writes() -> None:
    """Nobody says what launches the run on two cards, and the plan fits in any case."""
    name, cards = "examples/trainer/sft_full_llama3_8b.yaml", ("--gpu", "A100-80GB", "--gpus", "2", "--isolated")
    assert planned(ROOT, name, *cards)["verdict"] == "unknown"
    patch = memlint(ROOT, "plan", name, "--diff", "1", *cards).out
    assert patch and patch == memlint(ROOT, "fix", name, "--plan", "1", "--diff", *cards).out


def test_the_fewest_cards_are_told(folder: Path) -> None:
    cards = planned(folder, "long.yaml", "--goal", "cards", *EIGHT)["cards"]
    assert cards["with_changes"] == 1
    assert planned(folder, "full.yaml", "--max-cards", "1", "--gpu", "A100-80GB", "--gpus", "1", "--isolated")[
        "advice"
    ] == [one for one in planned(folder, "full.yaml", "--gpu", "A100-80GB", "--gpus", "1", "--isolated")["advice"]
          if "of these cards" not in one["title"]]  # fmt: skip


def test_the_fewest_cards_of_a_policy_are_not_those_of_its_engine_and_critic(tmp_path: Path) -> None:
    options = "--actor.num_gpus_per_node 2 --actor.num_nodes 1 --actor.model_name_or_path Qwen/Qwen3-0.6B"
    options += " --vllm.num_engines 2 --prompt_data d --max_new_tokens 512 --prompt_max_len 512"
    engine = "the inference engine's own"
    for critic, beside in (
        ("--algo.advantage.estimator rloo", engine),
        ("--critic.num_gpus_per_node 3 --critic.num_nodes 1", f"{engine} and the critic's 3"),
    ):
        write(tmp_path, {"run.sh": f"python3 -m openrlhf.cli.train_ppo_ray {options} {critic}\n"})
        shown = memlint(tmp_path, "plan", "run.sh", "--goal", "cards", "--gpu", "A100-80GB", "--isolated").out
        assert f"  fewest of these cards as it is, beside {beside}: " in shown


def test_the_checklist_ends_with_what_fits(folder: Path) -> None:
    tried = planned(folder, "full.yaml", *FOUR)["checklist"]
    assert [one["fits"] for one in tried] == [False] * (len(tried) - 1) + [True]
    assert "1. micro batch 2 -> 1" in memlint(folder, "plan", "full.yaml", *FOUR).out


GRPO = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
dataset_name: trl-lib/tldr
output_dir: grpo
beta: 0.04
num_generations: 8
per_device_train_batch_size: 8
max_prompt_length: 1024
max_completion_length: 4096
use_vllm: true
vllm_mode: colocate
vllm_gpu_memory_utilization: 0.6
bf16: true
gradient_checkpointing: true
"""


def test_the_checklist_has_no_step_with_a_higher_figure(tmp_path: Path) -> None:
    """With gradients that are accumulated a smaller batch has a lower upper end here, and a higher figure."""
    write(tmp_path, {"grpo.yaml": GRPO})
    row = planned(tmp_path, "grpo.yaml", "--gpu", "A100-80GB", "--gpus", "4", "--isolated")
    figures = [row["device_bytes"], *(one["after"]["figure"] for one in row["checklist"])]
    assert figures == sorted(figures, reverse=True) and len(figures) > 2


def test_the_checklist_has_no_step_that_the_framework_refuses(tmp_path: Path) -> None:
    """NeMo-RL moves nothing to the host on a single GPU."""
    write(tmp_path, {"grpo.yaml": (ROOT / "examples" / "nemo_rl" / "grpo_1b.yaml").read_text(encoding="utf-8")})
    row = planned(tmp_path, "grpo.yaml", "--gpu", "RTX4090", "--isolated")
    assert row["checklist"] and not [one for one in row["checklist"] if "host" in one["title"]]


def test_speed_puts_the_fastest_plan_first(folder: Path) -> None:
    speeds = [plan["speed"] for plan in planned(folder, "full.yaml", "--goal", "speed", *EIGHT)["plans"]]
    assert speeds == sorted(speeds)


def test_a_fix_that_is_not_written_says_why(folder: Path) -> None:
    odd = FULL.replace("per_device_train_batch_size: 2", "per_device_train_batch_size: 8")
    write(folder, {"odd.yaml": odd + "deepspeed: examples/deepspeed/ds_z2_config.json\n"})
    found = json.loads(memlint(folder, "check", "odd.yaml", "--format", "json", *FOUR).out)["findings"]
    fixes = [fix for one in found for fix in one["fixes"]]
    assert any(not fix["edits"] for fix in fixes)
    for fix in fixes:
        assert fix["edits"] or fix["note"], fix["title"]


def test_colour_is_there_when_asked_for_and_not_else(folder: Path) -> None:
    for argument, has in (("--no-color", False), ("--color=never", False), ("--color=always", True)):
        assert ("\x1b[" in memlint(folder, "plan", "full.yaml", "--max-batch", argument, *FOUR).out) == has


OWN_PROGRAM = """import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int, default=8)
given = parser.parse_args()
bits = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=bits)
size = {"per_device_train_batch_size": given.bs, "gradient_accumulation_steps": 2, "max_length": 8192}
arguments = SFTConfig("out", bf16=True, **size)
SFTTrainer(model, arguments, peft_config=LoraConfig(r=16, target_modules="all-linear")).train()
"""


def test_a_plan_that_cannot_be_written_is_told_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OWN_PROGRAM, "run.sh": "CUDA_VISIBLE_DEVICES=0 python train.py --bs 16\n"})
    row = planned(tmp_path, "run.sh", "--gpu", "RTX4090", "--gpus", "1")
    by_hand = next(one for one in row["advice"] if one["title"].startswith("micro batch 16 -> "))

    assert by_hand["note"].endswith("not written: `train.py` has no flag for `gradient_accumulation_steps`")
    assert by_hand["after"]["high"] <= by_hand["after"]["usable"]
    assert all(plan["quality"] != "none" for plan in row["plans"])


CHAT = "model_name_or_path: meta-llama/Meta-Llama-3-70B-Instruct\ntemplate: llama3\ninfer_backend: huggingface\n"


def test_the_card_that_holds_the_run_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(CHAT)
    said = memlint(tmp_path, "plan", "chat.yaml", "--gpu", "RTX4090", "--gpus", "1", "--isolated").out
    assert said.count("B200") == 1
    assert "or use B200; the smallest common card that holds the run as it is" in said


_NEMO = yaml.safe_load((ROOT / "examples" / "nemo_rl" / "grpo_1b.yaml").read_text(encoding="utf-8"))
_NEMO["policy"] |= {
    "model_name": "Qwen/Qwen2.5-32B-Instruct",
    "dtensor_cfg": {"enabled": False},
    "megatron_cfg": {"enabled": True, "tensor_model_parallel_size": 2},
}
_NEMO["cluster"] |= {"gpus_per_node": 8}
MEGATRON = {
    "swift.sh": """NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen2.5-32B-Instruct --dataset d.jsonl \\
    --tensor_model_parallel_size 2 --micro_batch_size 4 --global_batch_size 16 --max_length 8192
""",
    "pretrain.sh": """torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 40 --hidden-size 5120 \\
    --num-attention-heads 40 --seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 --bf16 \\
    --tokenizer-type NullTokenizer --micro-batch-size 4 --global-batch-size 64 --tensor-model-parallel-size 2
""",
    "verl.sh": """python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer.yaml \\
    algorithm.adv_estimator=grpo data.train_batch_size=256 data.max_prompt_length=1024 data.max_response_length=4096 \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-32B-Instruct actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 trainer.n_gpus_per_node=8 trainer.nnodes=1
""",
    "nemo.yaml": yaml.safe_dump(_NEMO),
}
LOWERED = {
    "swift.sh": ("--micro_batch_size 4 -> 1", "--recompute_granularity full"),
    "pretrain.sh": ("--use-distributed-optimizer", "--sequence-parallel"),
    "verl.sh": (
        "actor_rollout_ref.actor.megatron.tensor_model_parallel_size 2 -> 4",
        "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full",
    ),
    "nemo.yaml": (
        "policy.megatron_cfg.tensor_model_parallel_size 2 -> 4",
        "policy.megatron_cfg.activation_checkpointing: true",
    ),
}


@pytest.mark.parametrize("name", MEGATRON)
def test_a_run_of_megatron_is_told_what_lowers_its_bound_by_the_options_of_its_framework(
    tmp_path: Path, name: str
) -> None:
    write(tmp_path, MEGATRON)
    row = planned(tmp_path, name, "--gpu", "A100-80GB", "--isolated")
    lowered, spared = LOWERED[name]
    assert row["plans"] == [] and lowered in [one["title"] for one in row["bound"]]
    assert any(one.startswith(spared) for one in row["spares_activations"])
    text = memlint(tmp_path, "plan", name, "--gpu", "A100-80GB", "--isolated").out
    assert "no plan is promised" in text and lowered in text and spared in text


def test_the_command_that_writes_the_first_plan_is_told(folder: Path) -> None:
    said = memlint(folder, "plan", "full.yaml", "--format", "text", *EIGHT).out.splitlines()[-1]
    assert said == f"to write plan 1: memlint fix --plan 1 full.yaml {' '.join(EIGHT)}"
    assert "to write" not in memlint(folder, "plan", "full.yaml", "--goal", "speed", *EIGHT).out
