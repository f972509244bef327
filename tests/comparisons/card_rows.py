"""Published readings of the card (reserved, nvidia-smi) where the tensors' figure was not recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

from memlint.hardware import find
from memlint.memory.card.device import context_bytes, nccl_bytes
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Fsdp,
    Hardware,
    Loss,
    Method,
    Offload,
    Optimizer,
    Parallelism,
    Precision,
    Quantization,
    Run,
    Sequence,
    Stack,
)
from tests.comparisons.measured import ROWS, rows
from tests.comparisons.stacks import LeftOut, Row, model

GIB = 1 << 30
_METRICS = ("max_reserved", "nvidia_smi", "unknown")


class Read(NamedTuple):
    """One reading beside the estimate, GiB."""

    id: str
    metric: str
    shown: float
    allocated: float
    low: float
    central: float
    high: float

    @property
    def covered(self) -> bool:
        return self.low <= self.shown <= self.high


def qwen(row: Row) -> Run:
    """Qwen's finetune.py: HF Trainer 4.32 under torch 2.0, padded to the full length, reentrant checkpointing.

    `lora+emb` trains the embedding and the head as well, copies in the model's dtype.
    """
    if row.get("quantization"):
        raise LeftOut("GPTQ kernels of 2023 and what they unpack are not modelled")
    half = "bfloat16"
    whole = row["method"] == "lora+emb"
    method = Method("lora", rank=64, alpha=16, dropout=0.05, targets=tuple(row["lora_targets"]))
    return Run(
        "trainer",
        row["id"],
        model=model(_known(row), weights_dtype=half),
        method=method._replace(modules_to_save=("wte", "lm_head") if whole else ()),
        precision=Precision(half, True, half, False, outputs_to_fp32=True),
        batch=Batch(row["micro_batch_size"], row["grad_accum"]),
        sequence=Sequence(row["seq_len"], length_is_bound=False),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full", reentrant=True),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
        stack=Stack("trainer", transformers=(4, 32), torch=(2, 0), peft=(0, 5), accelerate=(0, 23)),
        hardware=Hardware(find("A100-80GB")),
    )


def swift(row: Row) -> Run:
    """ms-swift 1.x: HF Trainer 4.36, bf16 weights under autocast, reentrant checkpointing, q, k and v adapted.

    Samples longer than the length are dropped and their mean is longer, so the longest kept one comes close to it.
    """
    if row["n_gpus"] > 1:
        raise LeftOut("layers spread over GPUs by device_map")
    if "Qwen" not in row["model_hf_id"]:
        raise LeftOut("grows with the square of the length: not the attention that is recorded")
    quantized = str(row.get("quantization") or "")
    kept = Quantization("bnb", 4, "nf4", double_quant=True) if "bnb" in quantized else Quantization()
    if "gptq" in quantized:
        kept = Quantization("gptq", 8 if "int8" in quantized else 4, prequantized=True)
    full = row["method"] == "full"
    method = Method("full") if full else Method("lora", rank=row["lora_r"], alpha=32, dropout=0.05, targets=("c_attn",))
    eager = row["attention"].startswith("eager")
    return Run(
        "trainer",
        row["id"],
        model=model(_known(row), weights_dtype="bfloat16", quantization=kept),
        method=method,
        precision=Precision("bfloat16", True, "bfloat16" if full else "float32", False, outputs_to_fp32=True),
        batch=Batch(row["micro_batch_size"], row["grad_accum"]),
        sequence=Sequence(row["seq_len"], length_is_bound=False),
        attention=Attention("eager" if eager else "flash_attention_2"),
        checkpointing=Checkpointing("full" if row["gradient_checkpointing"] else "none", reentrant=True),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
        stack=Stack("trainer", transformers=(4, 36), torch=(2, 1), peft=(0, 7), accelerate=(0, 25)),
        hardware=Hardware(find("A100-80GB")),
    )


def fsdp_qlora(row: Row) -> Run:
    """Answer.AI's fsdp_qlora: everything bf16, FSDP1 with a unit a layer, reentrant checkpointing, torch's AdamW."""
    spread = "FULL_SHARD" if "FULL_SHARD" in row["fsdp"] else "NO_SHARD"
    kept = Quantization("bnb", 4, "nf4", double_quant=False, storage_dtype="bfloat16")
    offloaded = row["offload"] != "none"
    return Run(
        "trainer",
        row["id"],
        model=model(
            _known(row), weights_dtype="bfloat16", quantization=kept if row.get("quantization") else Quantization()
        ),
        method=Method(
            "lora", rank=64, alpha=16, dropout=0.1, targets=tuple(row["lora_targets"]), adapter_dtype="bfloat16"
        ),
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(row["micro_batch_size"], row["grad_accum"]),
        sequence=Sequence(row["seq_len"], length_is_bound=False),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full", reentrant=True),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(
            2, 2, 2, engine="fsdp", fsdp=Fsdp(1, spread, upcasts_trainable=False, cpu_offload=offloaded)
        ),
        offload=Offload(),
        stack=Stack("trainer", transformers=(4, 38), torch=(2, 2), peft=(0, 9), accelerate=(0, 27)),
        hardware=Hardware(find("RTX3090" if "3090" in row["gpu"] else "RTX4090")),
    )


def axolotl(row: Row) -> Run:
    raise LeftOut("axolotl's figures are given as 'about', on a card that is not named")


def titan(row: Row) -> Run:
    """torchtitan: FSDP2 with fp32 parameters and bf16 compute, checkpointing by operator is not modelled."""
    if (
        row["gradient_checkpointing"] != "full"
        or row["compute_dtype"] != "bf16 (none)"
        or row["tp"] > 1
        or row["cp"] > 1
    ):
        raise LeftOut("float8, selective checkpointing by operator, or tensor and context parallel")
    return Run(
        "trainer",
        row["id"],
        model=model(_known(row), weights_dtype="float32"),
        method=Method("full", "pt"),
        precision=Precision("bfloat16", False, "float32", False, outputs_to_fp32=False),
        batch=Batch(row["micro_batch_size"], 1),
        sequence=Sequence(row["seq_len"], packing=True, length_is_bound=False),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full", reentrant=False),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch_fused"),
        parallelism=Parallelism(8, 8, 8, engine="fsdp", fsdp=Fsdp(2)),
        hardware=Hardware(find("H100-80GB")),
    )


_COPIES = {
    "-Chat-Int4": "-Chat",
    "OpenBuddy/openbuddy-zephyr-7b-v14.1": "mistralai/Mistral-7B-v0.1",
    "mistralai/Mistral-7B-v0.2": "mistral-community/Mistral-7B-v0.2",
}


def _known(row: Row) -> Row:
    name = row["model_hf_id"]
    for part, instead in _COPIES.items():
        name = name.replace(part, instead)
    return {**row, "model_hf_id": name}


STACKS: tuple[tuple[str, Callable[[Row], Run]], ...] = (
    ("qwen1", qwen),
    ("swift1", swift),
    ("fsdpqlora", fsdp_qlora),
    ("axolotl", axolotl),
    ("titan", titan),
    ("torchao", titan),
)


def readings() -> Iterator[Read | tuple[str, str]]:
    """Every row of medium or high confidence: beside the estimate, or (id, why not)."""
    for row in rows(ROWS):
        if row["metric"] not in _METRICS:
            continue
        stack = next((function for start, function in STACKS if row["id"].startswith(start)), None)
        try:
            if stack is None:
                raise LeftOut("this tool's behaviour is not described, or is no causal model")
            yield beside(row, stack(row))
        except LeftOut as reason:
            yield row["id"], str(reason)


def beside(row: Row, run: Run) -> Read:
    found = estimate(run)
    if found.allocated_bytes is None:
        raise LeftOut("; ".join(f"{one.field}: {one.reason}" for one in found.unknown))
    outside = context_bytes(run) + nccl_bytes(run)
    low, central, high = (size or 0 for size in (found.device_low_bytes, found.device_bytes, found.device_high_bytes))
    inner = row["metric"] != "nvidia_smi"
    outer = row["metric"] == "max_reserved"
    ends = [low - outside if inner else low, central - outside if outer else central, high - outside if outer else high]
    return Read(
        row["id"], row["metric"], row["measured_gib"], found.allocated_bytes / GIB, *(size / GIB for size in ends)
    )


def lines() -> list[str]:
    """Readings of the card on stacks that no constant was taken from."""
    table = list(readings())
    groups: dict[str, list[Read]] = {}
    for one in table:
        if isinstance(one, Read):
            groups.setdefault(one.id.split("-")[0], []).append(one)
    found = ["| source | rows | covered | central, median error | median width | shown over high |", "|---" * 6 + "|"]
    found += [_row(_NAMES[name], group) for name, group in groups.items()]
    reasons = Counter(one[1] for one in table if not isinstance(one, Read))
    return [
        *found,
        "",
        *_SAID,
        "",
        "Rows left out:",
        "",
        *(f"- {count}: {why}" for why, count in reasons.most_common()),
    ]


_NAMES = {
    "qwen1": "Qwen finetune.py 2023, tool not named",
    "swift1": "ms-swift 1.x 2023, reserved",
    "fsdpqlora": "fsdp_qlora 2024, reserved",
    "torchao": "torchtitan, reserved",
}
_SAID = [
    "Nothing was calibrated here, so this is what the interval is worth on a stack that it never saw. The gap of the",
    "ms-swift rows depends on the length alone (about 7 GiB at 2048 tokens of 152k words, for every size of model):",
    "lengths vary there from batch to batch, and while the card has room the allocator keeps blocks of every size that",
    "it met. The interval is that of runs whose batches are alike. What the allocator keeps it gives back before a run",
    "dies, so a verdict of `fits` is not wrong for it.",
]


def _row(name: str, group: list[Read]) -> str:
    covered = sum(one.covered for one in group)
    central = median(abs(one.central / one.shown - 1) for one in group)
    width = median((one.high - one.low) / one.shown for one in group)
    over = sum(one.shown > one.high for one in group)
    return f"| {name} | {len(group)} | {covered} | {central:.1%} | {width:.1%} | {over} |"
