"""Writes configs like those that people have, each one different: for measurements, from no one's files.

    python benchmarks/speed/make_configs.py FOLDER [COUNT]

Models, batch sizes, lengths, LoRA ranks, ZeRO stages, precision, comments and order of keys vary with the number
of the file alone, so that every run measures the same files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

MODELS = (
    *("Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-14B-Instruct"),
    *("Qwen/Qwen3-8B", "Qwen/Qwen3-4B", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"),
    *("meta-llama/Meta-Llama-3-8B-Instruct", "mistralai/Mistral-7B-Instruct-v0.3", "google/gemma-2-9b-it"),
    *("microsoft/Phi-3.5-mini-instruct", "01-ai/Yi-1.5-9B-Chat", "deepseek-ai/deepseek-llm-7b-chat"),
)
# Shares as in public configs: most are LoRA, and about one in eight does not fit a card that its owner may have.
CARDS = ("RTX4090", "A100-80GB", "A100-80GB", "H100-80GB", "H100-80GB", "H200")
COMMENTS = (
    "# tuned by hand, do not raise",
    "# see the run of last week",
    "# longer samples are cut",
    "# effective batch stays at 64",
)
DATASETS = ("support_tickets", "alpaca_en_demo", "identity", "news_2024", "contracts_v2", "chat_logs,faq")


def configs(number: int) -> Iterator[tuple[str, str]]:
    """File names and texts."""
    for index in islice(count(), number):
        yield f"team{index % 40:02}/run_{index:05}.yaml", config(index)


def config(index: int) -> str:
    """One LLaMA-Factory config of some sixty lines."""
    random = Random(index)
    gpus = random.choice((1, 1, 2, 4, 8))
    parts = [_model(random), _method(random, gpus), _data(random), _output(random, index), _train(random)]
    random.shuffle(parts)
    head = f"# memlint: gpu={random.choice(CARDS)} gpus={gpus}\n# run {index}\n"
    return head + "\n".join(f"### {name}\n{_lines(random, values)}" for name, values in parts)


def _lines(random: Random, values: dict[str, object]) -> str:
    return "".join(f"{key}: {value}{_comment(random)}\n" for key, value in values.items())


def _comment(random: Random) -> str:
    return f"  {random.choice(COMMENTS)}" if random.random() < 0.1 else ""


def _model(random: Random) -> tuple[str, dict[str, object]]:
    values: dict[str, object] = {"model_name_or_path": random.choice(MODELS), "trust_remote_code": "true"}
    if random.random() < 0.6:
        values["flash_attn"] = random.choice(("fa2", "sdpa", "auto"))
    if random.random() < 0.4:
        values["enable_liger_kernel"] = "true"
    return "model", values


def _method(random: Random, gpus: int) -> tuple[str, dict[str, object]]:
    values: dict[str, object] = {"stage": random.choice(("sft", "sft", "sft", "dpo", "pt")), "do_train": "true"}
    if random.random() < 0.85:
        rank = random.choice((4, 8, 16, 32, 64, 128))
        target = random.choice(("all", "q_proj,v_proj"))
        values |= {"finetuning_type": "lora", "lora_rank": rank, "lora_alpha": 2 * rank, "lora_target": target}
        if random.random() < 0.3:
            values |= {"quantization_bit": 4, "quantization_method": "bnb"}
    else:
        values["finetuning_type"] = "full"
        if gpus == 1:
            values["pure_bf16"] = "true"
    return "method", values


def _data(random: Random) -> tuple[str, dict[str, object]]:
    return "dataset", {
        "dataset": random.choice(DATASETS),
        "template": random.choice(("qwen", "llama3", "mistral", "default")),
        "cutoff_len": random.choice((512, 1000, 1024, 1024, 2048, 2048, 3072, 4096)),
        "max_samples": random.randrange(1000, 100_000),
        "overwrite_cache": "true",
        "packing": random.choice(("true", "false")),
        "preprocessing_num_workers": random.choice((1, 4, 8, 16)),
        "dataloader_num_workers": random.choice((0, 2, 4)),
    }


def _output(random: Random, index: int) -> tuple[str, dict[str, object]]:
    return "output", {
        "output_dir": f"saves/run_{index}",
        "logging_steps": random.choice((1, 5, 10, 50)),
        "save_steps": random.randrange(100, 2000),
        "plot_loss": "true",
        "overwrite_output_dir": "true",
        "save_only_model": random.choice(("true", "false")),
        "report_to": random.choice(("none", "wandb", "tensorboard")),
        "run_name": f"run-{index}",
    }


def _train(random: Random) -> tuple[str, dict[str, object]]:
    return "train", {
        "per_device_train_batch_size": random.choice((1, 1, 1, 2, 2, 3, 4, 8)),
        "gradient_accumulation_steps": random.choice((1, 2, 4, 8, 16, 32)),
        "learning_rate": f"{random.randrange(1, 99) / 10:.1f}e-5",
        "num_train_epochs": f"{random.randrange(1, 6)}.0",
        "lr_scheduler_type": random.choice(("cosine", "linear", "constant")),
        "warmup_ratio": random.choice((0.03, 0.05, 0.1)),
        "weight_decay": random.choice((0.0, 0.01, 0.1)),
        "max_grad_norm": 1.0,
        "bf16": "true",
        "seed": random.randrange(10_000),
        "gradient_checkpointing": random.choice(("true", "true", "false")),
        "ddp_timeout": 180_000_000,
        "optim": random.choice(("adamw_torch", "adamw_torch", "paged_adamw_8bit", "adamw_bnb_8bit")),
    }


def write(folder: Path, number: int) -> None:
    for name, text in configs(number):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("count", nargs="?", type=int, default=2000)
    options = arguments.parse_args()
    write(options.folder, options.count)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
