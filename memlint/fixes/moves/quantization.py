"""Weights in 4 bits: what a change to them sets, and what lets GPUs share them."""

from __future__ import annotations

from typing import Any

from memlint.run import Run


def quantize_changes(run: Run) -> dict[str, Any]:
    """QLoRA's 4 bits (Dettmers et al. 2023, arXiv 2305.14314)."""
    return {
        "model.quantization.method": run.planning.quantizer,
        "model.quantization.bits": 4,
        "model.quantization.kind": "nf4",
        "model.quantization.double_quant": True,
    }


def stored_to_share(run: Run, planned: bool = False) -> dict[str, Any]:
    """What keeps 4-bit weights in tensors of the compute dtype, where that is half precision, they are not yet, and the
    config can say it. `planned`: the weights are not in 4 bits yet."""
    quantization, half = run.model.quantization, run.precision.compute
    if half not in ("bfloat16", "float16"):
        return {}
    if (quantization.method == "none" and not planned) or quantization.storage_dtype == half:
        return {}
    unasked = run.planning.stores_4_bits_in_half == "always" and planned and half == "bfloat16"
    can = unasked or run.planning.stores_4_bits_in_half == "asked"
    return {"model.quantization.storage_dtype": half} if can else {}


def four_bits(run: Run) -> dict[str, Any] | None:
    """The changes that load the base in 4 bits; None where it is quantised already, or where what divides the weights
    over the GPUs does not take it: ZeRO-3 and FSDP share 4-bit weights that are stored in the compute dtype alone (peft
    docs, accelerate/fsdp.md, "Use PEFT QLoRA and FSDP", and accelerate/deepspeed.md). torchao's are tensors that FSDP2
    shares (torchtune 0.6.1 recipes/configs/llama3_3/70B_qlora.yaml)."""
    if run.model.quantization.method != "none":
        return None
    if run.planning.quantizer == "torchao":
        return quantize_changes(run)
    if is_divided(run):
        return to_share(run)
    storage = stored_to_share(run, planned=True) if run.planning.stores_4_bits_in_half == "always" else {}
    return {**quantize_changes(run), **storage}


def to_share(run: Run) -> dict[str, Any] | None:
    """The changes with which FSDP can share the weights in 4 bits; None where it cannot."""
    if run.model.quantization.method != "none":
        return stored_to_share(run)
    storage = stored_to_share(run, planned=True)
    return {**quantize_changes(run), **storage} if storage else None


def is_divided(run: Run) -> bool:
    """Whether the GPUs hold a share of each weight."""
    engine = run.parallelism.engine
    return engine == "fsdp" or (engine == "deepspeed" and run.parallelism.zero.stage == 3)
