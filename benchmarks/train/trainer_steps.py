"""A tiny training under plain, DDP, FSDP or DeepSpeed on the CPU: predicted beside measured by phase.

    python benchmarks/train/trainer_steps.py plain
    torchrun --nproc-per-node 2 benchmarks/train/trainer_steps.py ddp
    torchrun --nproc-per-node 2 benchmarks/train/trainer_steps.py zero2      (zero3; needs deepspeed and a C++ compiler)
    torchrun --nproc-per-node 2 benchmarks/train/trainer_steps.py fsdp2      (fsdp1)
    python benchmarks/train/trainer_steps.py sft                              (dpo, grpo; needs trl and datasets)
    python benchmarks/train/trainer_steps.py cost

`cost` prints what the callback adds to a step where it reads counters, as it does on a GPU: the hooks and their Python,
with counters that cost nothing. What PyTorch's own counters cost is not in it.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import memlint.train
from memlint.train.meters import MeasuredPeak
from memlint.train.predict import Training
from memlint.train.session import Session

SIZES = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 8}
SIZES |= {"num_key_value_heads": 4, "vocab_size": 8192, "max_position_embeddings": 512}
LENGTH = 256
TRL = ("sft", "dpo", "grpo")
FSDP = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
AUTO = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "train_batch_size", "gradient_clipping")


class FreeCounters:
    """Counters that cost nothing to read."""

    device = "cuda"

    def start(self, model: torch.nn.Module) -> None: ...

    def take(self) -> MeasuredPeak:
        return MeasuredPeak()

    def stop(self) -> None: ...


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False))


def train(kind: str) -> None:
    more: dict[str, Any] = {}
    if kind.startswith("zero"):
        more["deepspeed"] = {"zero_optimization": {"stage": int(kind[4:])}, **dict.fromkeys(AUTO, "auto")}
    if kind.startswith("fsdp"):
        more |= {"fsdp": True, "fsdp_config": {**FSDP, "version": int(kind[4:])}}
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=2,
        max_steps=4,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        optim="adamw_torch",
        **more,
    )
    rows = [{"input_ids": torch.arange(LENGTH), "labels": torch.arange(LENGTH)} for _ in range(16)]
    trainer = Trainer(model(), arguments, train_dataset=rows)
    memlint.train.watch(trainer, gpu="A100-80GB")
    trainer.train()


def train_with_trl(kind: str) -> None:
    """A tiny training of TRL, of words that a tokenizer of its own knows."""
    import trl
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(("<pad>", "<eos>", *map(str, range(1000))))}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")
    text = " ".join(map(str, range(100)))
    columns = {
        "sft": {"text": text},
        "dpo": {"prompt": text, "chosen": text, "rejected": text},
        "grpo": {"prompt": text},
    }[kind]
    common: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(),
        "per_device_train_batch_size": 2,
        "max_steps": 4,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "disable_tqdm": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": False,
        "optim": "adamw_torch",
    }
    options: dict[str, Any] = {"processing_class": tokenizer, "train_dataset": Dataset.from_list([columns] * 32)}
    if kind == "grpo":
        common |= {"num_generations": 2, "max_completion_length": 16}
        options["reward_funcs"] = lambda completions, **told: [float(len(one)) for one in completions]
    made = {"sft": (trl.SFTTrainer, trl.SFTConfig), "dpo": (trl.DPOTrainer, trl.DPOConfig)}
    trainer_class, config_class = made.get(kind) or (trl.GRPOTrainer, trl.GRPOConfig)
    trainer = trainer_class(model=model(), args=config_class(**common), **options)
    memlint.train.watch(trainer, gpu="A100-80GB")
    trainer.train()


def cost(steps: int = 2_000) -> None:
    """Microseconds that hooks add to a step: in the first ones, which are all measured, and in later ones."""
    layer = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    inputs = torch.zeros((1, 1))
    for name, always in (("every phase measured", True), ("no batch longer than before", False)):
        bare = _seconds(layer, optimizer, inputs, steps)
        session = Session(Training(layer, optimizer, {}, (1, 1)), "ignore", FreeCounters())
        session.start()
        if always:
            session.recorder.steps = -(10**9)
        _seconds(layer, optimizer, inputs, 20)
        watched = _seconds(layer, optimizer, inputs, steps)
        session.stop()
        print(f"{name}: {1e6 * (watched - bare) / steps:.1f} us a step")


def _seconds(layer: torch.nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, steps: int) -> float:
    start = time.process_time()
    for _ in range(steps):
        layer(inputs).sum().backward()
        optimizer.step()
    return time.process_time() - start


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    {"cost": cost}.get(sys.argv[1], lambda: (train_with_trl if sys.argv[1] in TRL else train)(sys.argv[1]))()
