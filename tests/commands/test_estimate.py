"""`memlint estimate` without a file and with changes, `explain --math`, `models`, `optimizers`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.running import memlint, write
from tests.repository.test_completed_configs import FILES

ISSUE = "--model meta-llama/Llama-3.1-8B --method qlora --length 4096 --batch 4 --optimizer adamw_8bit --zero 3"


def test_a_question_its_files_and_their_arithmetic(tmp_path: Path) -> None:
    asked = memlint(tmp_path, "estimate", *ISSUE.split(), "--gpu", "RTX4090", "--gpus", "2", "--write-config", "out")
    assert asked.code == 0, asked.err
    assert "2 x RTX 4090" in asked.out and "not said, so taken:" in asked.out
    assert "--rank 8" in asked.out and "FORCE_TORCHRUN=1 llamafactory-cli train train.yaml" in asked.out
    read = memlint(tmp_path, "estimate", "out/train.yaml")
    table = [line for line in read.out.splitlines() if "GiB" in line or line.startswith("  allocated")]
    assert table and all(line in asked.out for line in table)
    told = memlint(tmp_path, "explain", "--math", "out/train.yaml")
    assert told.code == 0 and "| 32 x [16,384 tokens x 4,096 a token x 2 bytes] = 4,294,967,296" in told.out
    as_json = json.loads(memlint(tmp_path, "explain", "--math", "out/train.yaml", "--format", "json").out)
    assert as_json["runs"][0]["model"]["layers"] == 32


@pytest.mark.parametrize("verb", ["estimate", "plan"])
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, verb: str) -> None:
    write(tmp_path, {"broken.yaml": "model_name_or_path: gpt2\n  bad: [1, 2\n"})
    done = memlint(tmp_path, verb, "broken.yaml")
    assert done.code == 2
    assert "broken.yaml:2:6: a ':' that makes no sense here" in done.out + done.err


def test_json_of_a_question(tmp_path: Path) -> None:
    done = memlint(tmp_path, "estimate", "--model", "phi-2", "--gpu", "T4", "--format", "json", "--inference")
    found = json.loads(done.out)
    assert found["question"] == {"model": "phi-2", "gpu": "T4", "inference": True}
    assert found["runs"][0]["verdict"] == "fits"
    assert "inference.yaml" in found["files"]["contents"] and found["serving"]["token_bytes"] == 327680
    assert {one["field"] for one in found["defaults"]} >= {"context", "requests"}


def test_the_smallest_number_of_cards(tmp_path: Path) -> None:
    done = memlint(tmp_path, "estimate", "--model", "llama-3-8b", "--method", "full", "--gpu", "H100", "--gpus", "auto")
    assert done.code == 0 and "fewest H100:" in done.out and "A100-80GB" in done.out and "--zero 3" in done.out


def test_settings_and_files_of_the_folder_say_nothing_about_a_question(tmp_path: Path) -> None:
    (tmp_path / "memlint.yaml").write_text("gpu: H100\n", encoding="utf-8")
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node 8 train.py train.yaml\n", encoding="utf-8")
    assert "no GPU named" in memlint(tmp_path, "estimate", "--model", "phi-2").out
    assert "1 x H100" in memlint(tmp_path, "estimate", "--model", "phi-2", "--settings", "memlint.yaml").out


def test_variants_and_a_sweep_of_a_file(tmp_path: Path) -> None:
    memlint(tmp_path, "estimate", "--model", "phi-2", "--gpu", "T4", "--write-config", "t.yaml")
    done = memlint(tmp_path, "estimate", "t.yaml", "--set", "lora_rank=64", "--try", "cutoff_len=512 gpu=L4")
    assert (
        done.code == 0 and "as it is" in done.out and "lora_rank=64" in done.out and "cutoff_len=512 gpu=L4" in done.out
    )
    swept = memlint(tmp_path, "estimate", "t.yaml", "--sweep", "cutoff_len=512..4096", "--plot", "s.svg")
    assert swept.code == 0 and (tmp_path / "s.svg").exists() and "4096" in swept.out
    as_json = json.loads(memlint(tmp_path, "estimate", "t.yaml", "--set", "lora_rank=64", "--format", "json").out)
    assert as_json["variants"][0]["label"] == "lora_rank=64"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--model lama-3-8b", "did you mean"),
        ("--model phi-2 --gpu RTX4099", "RTX 4090"),
        ("--model phi-2 --optimizer adamw_8bits", "did you mean adamw_8bit"),
        ("t.yaml --method lora", "--set KEY=VALUE"),
        ("t.yaml --write-config x", "leave the paths out"),
        ("t.yaml --math", "memlint explain --math"),
        ("--write-config x", "ask a question first"),
        ("t.yaml --plot x.svg", "add --sweep"),
        ("t.yaml --set cutof_len=4", "did you mean `cutoff_len`"),
        ("t.yaml --sweep cutoff_len=1..4 --try lora_rank=4", "one of them"),
        (". --set lora_rank=4 --gpus auto", "name a number"),
        ("t.yaml --gpus auto", "--goal cards"),
    ],
)
def test_slips_exit_2(tmp_path: Path, arguments: str, message: str) -> None:
    text = "model_name_or_path: microsoft/phi-2\nfinetuning_type: lora\ncutoff_len: 512\ndo_train: true\n"
    (tmp_path / "t.yaml").write_text(text, encoding="utf-8")
    done = memlint(tmp_path, "estimate", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_math_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}, "train_batch_size": 8}', encoding="utf-8")
    done = memlint(tmp_path, "explain", "--math", "ds.json")
    assert done.code == 2 and "no estimate to explain" in done.err


def test_models(tmp_path: Path) -> None:
    found = json.loads(memlint(tmp_path, "models", "llama-3", "8b", "--format", "json").out)["models"]
    assert any(one["parameters"] == 8_030_261_248 and one["layers"] == 32 for one in found)
    assert len(memlint(tmp_path, "models").out.splitlines()) > 600
    slip = memlint(tmp_path, "models", "mistrl-7b")
    assert slip.code == 2 and "did you mean" in slip.err


def test_optimizers(tmp_path: Path) -> None:
    found = json.loads(memlint(tmp_path, "optimizers", "--format", "json").out)["optimizers"]
    sizes = {one["name"]: (one["fp32"], one["bf16"]) for one in found}
    assert sizes["adamw_torch"] == (8, 4) and sizes["sgd"] == (0, 0)
    assert sizes["adamw_bnb_8bit"] == (2 * (1 + 4 / 256),) * 2
    assert all(one["source"] for one in found)
    assert "in managed memory" in memlint(tmp_path, "optimizers").out
    some = json.loads(memlint(tmp_path, "optimizers", "Paged", "8bit", "--format", "json").out)["optimizers"]
    assert {one["name"] for one in some} >= {"paged_adamw_8bit"}
    assert all("paged" in " ".join((one["name"], *one["aliases"])) for one in some)
    slip = memlint(tmp_path, "optimizers", "adafactr")
    assert (slip.code, slip.err) == (
        2,
        "memlint: no known optimizer has adafactr in its name; did you mean adafactor?\n",
    )


CHAT = "model_name_or_path: meta-llama/Meta-Llama-3-70B-Instruct\ntemplate: llama3\ninfer_backend: huggingface\n"
IMAGES = """\
model_name_or_path: Qwen/Qwen2.5-VL-7B-Instruct
stage: sft
do_train: true
finetuning_type: lora
lora_target: all
dataset: mllm_demo
template: qwen2_vl
cutoff_len: 4096
output_dir: out
per_device_train_batch_size: 1
bf16: true
"""
TENSOR_PARALLEL = """\
base_model: meta-llama/Meta-Llama-3-8B
tensor_parallel_size: 2
dp_shard_size: 2
fsdp_version: 2
fsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP, transformer_layer_cls_to_wrap: LlamaDecoderLayer}
datasets: [{path: x, type: alpaca}]
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 1
bf16: true
learning_rate: 1e-5
num_epochs: 1
optimizer: adamw_torch_fused
"""


def test_inference_has_a_line_for_its_cache_a_finding_and_no_plan_of_training(tmp_path: Path) -> None:
    (tmp_path / "chat.yaml").write_text(CHAT)
    on_one = ("chat.yaml", "--gpu", "A100-80GB", "--gpus", "1", "--isolated")
    cache = [line for line in memlint(tmp_path, "estimate", *on_one).out.splitlines() if line.startswith("  KV cache")]
    assert [line.split()[2] for line in cache] == ["-"]  # nothing while it loads
    assert "MEM008" in memlint(tmp_path, "check", *on_one).out
    plan = memlint(tmp_path, "plan", *on_one).out
    assert "neither a smaller micro batch nor shorter sequences are enough alone" in plan
    assert "ZeRO" not in plan and "optimizer" not in plan


def test_images_that_a_figure_stands_for_are_said(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text(IMAGES)
    (tmp_path / "small.yaml").write_text(IMAGES + "image_max_pixels: 65536\n")
    assert "images in a sample: none in the table" in memlint(tmp_path, "estimate", "images.yaml", "--isolated").out
    large, small = (
        memlint(tmp_path, "estimate", name, "--images", "2", "--isolated").out for name in ("images.yaml", "small.yaml")
    )
    assert "images in a sample: 2 of 729 tokens each" in large
    assert "images in a sample: 2 of 81 tokens each" in small


def test_parameters_are_the_models_with_those_of_a_gpu_beside_them(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(TENSOR_PARALLEL)
    said = memlint(tmp_path, "estimate", "run.yaml", "--gpu", "A100-80GB", "--gpus", "4", "--isolated").out
    assert "8.03 B parameters (4.28 B per GPU), 8.03 B train (100 %)" in said


BESIDE = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
stage: dpo
do_train: true
finetuning_type: full
ref_model: meta-llama/Meta-Llama-3-8B
dataset: dpo_en_demo
template: qwen
cutoff_len: 1024
per_device_train_batch_size: 1
bf16: true
output_dir: out
"""


def test_weights_of_other_models_are_said(tmp_path: Path) -> None:
    """8.03 billion parameters in bf16 beside 1.54 billion that train in fp32."""
    (tmp_path / "named.yaml").write_text(BESIDE)
    (tmp_path / "alone.yaml").write_text(BESIDE.replace("stage: dpo", "stage: sft").replace("ref_model", "# ref_model"))
    named, alone = (memlint(tmp_path, "estimate", name, "--isolated").out for name in ("named.yaml", "alone.yaml"))
    assert "of the weights 14.96 GiB are models beside the trained one" in named
    assert "models beside" not in alone


def test_what_starts_the_run_names_the_file_that_was_written(tmp_path: Path) -> None:
    ask = ("estimate", "--model", "phi-2", "--method", "lora", "--gpu", "T4")
    unwritten, named, below = (
        memlint(tmp_path, *ask, *more).out for more in ((), ("--write-config", "phi.yaml"), ("--write-config", "runs"))
    )
    assert "  start with: llamafactory-cli train train.yaml\n" in unwritten
    assert "  start with: llamafactory-cli train phi.yaml\n" in named
    assert "  start in runs with: llamafactory-cli train train.yaml\n" in below


def test_a_question_over_its_card_names_the_command_for_ways_out(tmp_path: Path) -> None:
    ask = ("estimate", "--model", "llama-3-8b", "--method", "full", "--zero", "3", "--gpu", "RTX4090", "--gpus", "2")
    unwritten, named, below = (
        memlint(tmp_path, *ask, *more).out for more in ((), ("--write-config", "a.yaml"), ("--write-config", "runs"))
    )
    cards = "--gpu RTX4090 --gpus 2\n"
    assert f"  what makes it fit: --write-config FOLDER, then memlint plan FOLDER/train.yaml {cards}" in unwritten
    assert f"  what makes it fit: memlint plan a.yaml {cards}" in named
    assert f"  what makes it fit: memlint plan runs/train.yaml {cards}" in below
    spaced = memlint(tmp_path, *ask[:7], "--gpu", "RTX 4090").out  # a command to paste
    assert "memlint plan FOLDER/train.yaml --gpu 'RTX 4090'\n" in spaced
    small = memlint(tmp_path, "estimate", "--model", "phi-2", "--method", "lora", "--gpu", "A100-80GB").out
    assert "what makes it fit" not in small


@pytest.mark.parametrize("command", ["estimate", "check"])
def test_a_config_the_script_that_reads_it_and_its_command_are_one_run(command: str, tmp_path: Path) -> None:
    write(tmp_path, FILES)
    done = memlint(tmp_path, command, ".", "--gpu", "RTX4090", "--gpus", "4", "--format", "json")
    assert [run["path"] for run in json.loads(done.out)["runs"]] == ["run.sh"]
