"""Figures for usual numbers of GPUs, where nobody says how many there are."""

from __future__ import annotations

from pathlib import Path

from memlint.hardware import find
from memlint.memory import estimate
from memlint.memory.card.device import usable_bytes
from memlint.memory.unknown.gpu_numbers import NUMBERS, by_number_of_gpus
from memlint.run import UNKNOWN, Run, replace
from tests.commands.running import memlint, write
from tests.memory.runs import LLAMA_8B, run

ZERO3 = {"parallelism__engine": "deepspeed", "parallelism__zero__stage": 3}
FSDP2 = (
    "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\nbf16: true\n"
    "fsdp_version: 2\nchunked_cross_entropy: true\ngradient_checkpointing: true\n"
    "fsdp_config:\n  transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  reshard_after_forward: true\n"
    "optimizer: adamw_torch\ndatasets:\n  - path: x\n    type: alpaca\n"
)

OPEN = {"parallelism__world_size": UNKNOWN, "parallelism__data_parallel_size": UNKNOWN}


def on_card(name: str, length: int = 4096) -> Run:
    """Full fine-tuning of an 8B model, with ZeRO-3 over a number of GPUs that nobody says."""
    return run(LLAMA_8B, **ZERO3, **OPEN, sequence__length=length, hardware__gpu=find(name))


def test_each_number_is_the_estimate_with_that_number() -> None:
    made = run(**ZERO3, **OPEN)
    found = by_number_of_gpus(made, estimate(made), estimate)
    assert len(found) == len(NUMBERS)
    for number, one in zip(NUMBERS, found):
        sizes = {"world_size": number, "data_parallel_size": number, "gpus_per_node": min(number, 8)}
        said = estimate(replace(made, {f"parallelism.{name}": size for name, size in sizes.items()}))
        assert one.device_bytes == said.device_bytes
    assert len({one.device_bytes for one in found}) > 1


def test_a_run_that_lacks_something_else_has_none() -> None:
    made = run(**ZERO3, parallelism__world_size=UNKNOWN, sequence__length=UNKNOWN)
    assert by_number_of_gpus(made, estimate(made), estimate) == ()
    known = run()
    assert by_number_of_gpus(known, estimate(known), estimate) == ()


def test_estimate_shows_them_and_check_does_not(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": FSDP2})
    told = memlint(tmp_path, "estimate", "train.yaml", "--gpu", "RTX4090").out
    assert "  by the number of GPUs:\n" in told
    assert "on one GPU: out of memory\n" in told and "on each of 32 GPUs: fits\n" in told
    assert "on each of" not in memlint(tmp_path, "check", "train.yaml").out


def test_a_card_that_holds_it_with_any_number_holds_it() -> None:
    found = estimate(on_card("B200", 1024))
    assert found.verdict == "fits" and not found.unknown
    assert {one.verdict for one in found.readings} == {"fits"}
    assert found.device_bytes == max(one.device_bytes or 0 for one in found.readings)


def test_a_card_that_no_number_suffices_for_is_too_small() -> None:
    found = estimate(on_card("T4", 16384))
    assert found.verdict == "out_of_memory"
    assert found.device_bytes == min(one.device_bytes or 0 for one in found.readings)


def test_where_the_number_decides_the_reason_says_from_which_on_it_fits() -> None:
    found = estimate(on_card("H200"))
    assert found.verdict == "unknown" and found.device_bytes is None
    assert found.budget_bytes == usable_bytes(on_card("H200"))  # what MEM005 says that the card has
    (missing,) = found.unknown
    assert missing.field == "parallelism.world_size"
    first, second, third, *_ = (f"({(one.device_bytes or 0) / 2**30:.1f} GiB)" for one in found.readings)
    told = f"out of memory on 1 GPU {first}, tight on 2 GPUs {second}, fits on 4 GPUs or more {third}"
    assert missing.reason.endswith(told)


def test_check_says_what_depends_on_the_number(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": FSDP2})
    told = memlint(tmp_path, "check", "train.yaml", "--gpu", "RTX4090").out
    assert "train.yaml: no verdict, because parallelism.world_size is unknown: " in told
    assert "tight on 4 GPUs (23.5 GiB), fits on 8 GPUs or more (18.8 GiB)" in told
    assert " on each H200" in memlint(tmp_path, "check", "train.yaml", "--gpu", "H200").out
