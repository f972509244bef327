"""Trains one case for a few steps with the Trainer and prints its memory as one JSON line.

Run by run.py in a process of its own: peaks, caches and the CUDA context start from nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import torch

from benchmarks.command import parser
from benchmarks.referee.gpu.cases import Case

STEPS = 4
DTYPES = {"bf16": torch.float32, "fp16": torch.float32, "fp32": torch.float32, "pure_bf16": torch.bfloat16}


class Meter:
    """Peaks per phase of the last optimizer step; zeros on a machine without CUDA."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available()
        self.phases: dict[str, int] = {}
        self.reserved = 0
        self.highest = 0

    def close(self, phase: str) -> None:
        """Ends `phase`: keeps its peak and begins anew."""
        if not self.cuda:
            self.phases[phase] = 0
            return
        torch.cuda.synchronize()
        self.phases[phase] = torch.cuda.max_memory_allocated()
        self.highest = max(self.highest, self.phases[phase])
        self.reserved = max(self.reserved, torch.cuda.max_memory_reserved())
        torch.cuda.reset_peak_memory_stats()

    def device(self) -> int:
        """What the whole card shows as used."""
        if not self.cuda:
            return 0
        free, total = torch.cuda.mem_get_info()
        return total - free


def build(case: Case) -> Any:
    """The model with random weights, quantised and adapted as the case says."""
    import transformers

    kind, settings = case.model
    config = getattr(transformers, kind)(**settings)
    frozen = torch.bfloat16 if case.method != "full" and case.precision != "fp32" else DTYPES[case.precision]
    half = torch.float16 if case.precision == "fp16" else torch.bfloat16
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=half if case.method == "lora" and frozen != torch.float32 else frozen,
            attn_implementation=case.attention if device == "cuda" else "sdpa",
        )  # fmt: skip
    model.config.use_cache = False
    if case.quantization:
        quantise(model, case.quantization, half)
    if case.method == "lora":
        from peft import LoraConfig, get_peft_model

        targets: Any = case.targets if case.targets == "all-linear" else case.targets.split(",")
        lora = LoraConfig(r=case.rank, lora_dropout=case.dropout, target_modules=targets, task_type="CAUSAL_LM")
        model = get_peft_model(model, lora)
    if case.method == "freeze":
        freeze(model, case)
    return model


def freeze(model: Any, case: Case) -> None:
    layers = model.model.layers
    model.requires_grad_(False)
    for layer in layers[-case.trainable_layers :] if case.trainable_layers > 0 else layers[: -case.trainable_layers]:
        layer.requires_grad_(True)
        layer.to(DTYPES[case.precision])


def quantise(model: Any, name: str, compute: torch.dtype) -> None:
    """Replaces linear layers but the head by bitsandbytes' and quantises them on the GPU."""
    import bitsandbytes as bnb

    head = model.get_output_embeddings()
    for path, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or module is head:
            continue
        size, bias = (module.in_features, module.out_features), module.bias is not None
        if name == "int8":
            new: Any = bnb.nn.Linear8bitLt(*size, bias=bias, has_fp16_weights=False)
            new.weight = bnb.nn.Int8Params(module.weight.data.cpu(), requires_grad=False, has_fp16_weights=False)
        else:
            new = bnb.nn.Linear4bit(*size, bias=bias, compute_dtype=compute, compress_statistics=name.endswith("dq"))
            new.weight = bnb.nn.Params4bit(
                module.weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=name.endswith("dq")
            )
        parent = model.get_submodule(path.rpartition(".")[0])
        setattr(parent, path.rpartition(".")[2], new.to(model.device))
    model.is_loaded_in_4bit, model.is_loaded_in_8bit = name != "int8", name == "int8"  # what PEFT asks


class Tokens(torch.utils.data.Dataset):  # type: ignore[type-arg, misc]
    def __init__(self, count: int, length: int, vocabulary: int) -> None:
        self.rows = torch.randint(0, vocabulary, (count, length))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def arguments(case: Case, folder: str) -> Any:
    import transformers

    return transformers.TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        per_device_train_batch_size=case.micro_batch_size,
        per_device_eval_batch_size=case.evaluate or 8,
        gradient_accumulation_steps=case.accumulation,
        gradient_checkpointing=case.checkpointing != "none",
        gradient_checkpointing_kwargs={"use_reentrant": case.checkpointing == "reentrant"},
        bf16=case.precision == "bf16" and torch.cuda.is_available(),
        fp16=case.precision == "fp16" and torch.cuda.is_available(),
        optim=case.optimizer,
        optim_target_modules="all-linear" if case.optimizer.startswith(("galore", "apollo")) else None,
        max_grad_norm=case.max_grad_norm,
        use_liger_kernel=case.liger,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        report_to="none",
        logging_strategy="no",
        disable_tqdm=True,
        seed=0,
    )


def train(case: Case, folder: str) -> dict[str, Any]:
    """Phases and totals in bytes."""
    import transformers

    meter = Meter()
    model = build(case)
    meter.close("load")
    count = STEPS * case.micro_batch_size * case.accumulation
    data = Tokens(count, case.sequence_length, case.model[1]["vocab_size"])

    class Metered(transformers.Trainer):  # type: ignore[misc]
        def compute_loss(self, *given: Any, **named: Any) -> Any:
            meter.close("between")
            loss = super().compute_loss(*given, **named)
            meter.close("forward")
            return loss

    class PeakCandidates(transformers.TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, *given: Any, **named: Any) -> None:
            meter.close("backward")

        def on_optimizer_step(self, *given: Any, **named: Any) -> None:
            meter.close("optimizer_step")

    trainer = Metered(model=model, args=arguments(case, folder), train_dataset=data, callbacks=[PeakCandidates()],
        eval_dataset=Tokens(case.evaluate * 2, case.sequence_length, 256) if case.evaluate else None)  # fmt: skip
    trainer.train()
    if case.evaluate:
        trainer.evaluate()
        meter.close("evaluation")
    return {
        "phases": {name: size for name, size in meter.phases.items() if name != "between"},
        "allocated": meter.highest,
        "reserved": meter.reserved,
        "device": meter.device(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "trainable": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "gpu": torch.cuda.get_device_name() if meter.cuda else "none (dry run)",
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "transformers", "accelerate", "peft", "bitsandbytes", "liger-kernel", "flash-attn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    import tempfile

    arguments = parser(__doc__)
    arguments.add_argument("case", help="the fields of a `Case` as JSON")
    case = Case(**json.loads(arguments.parse_args().case))
    with tempfile.TemporaryDirectory() as folder:
        print("RESULT " + json.dumps(train(case._replace(model=tuple(case.model)), folder)))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
