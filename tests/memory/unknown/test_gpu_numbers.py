"""Figures for usual numbers of GPUs, where nobody says how many there are."""

from __future__ import annotations

from pathlib import Path

from memlint.memory import estimate
from memlint.memory.unknown.gpu_numbers import NUMBERS, by_number_of_gpus
from memlint.run import UNKNOWN, replace
from tests.commands.running import memlint, write
from tests.memory.runs import run

ZERO3 = {"parallelism__engine": "deepspeed", "parallelism__zero__stage": 3}
FSDP2 = (
    "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 1\nbf16: true\n"
    "fsdp_version: 2\nchunked_cross_entropy: true\ngradient_checkpointing: true\n"
    "fsdp_config:\n  transformer_layer_cls_to_wrap: LlamaDecoderLayer\n  reshard_after_forward: true\n"
    "optimizer: adamw_torch\ndatasets:\n  - path: x\n    type: alpaca\n"
)


def test_each_number_is_the_estimate_with_that_number() -> None:
    made = run(**ZERO3, parallelism__world_size=UNKNOWN, parallelism__data_parallel_size=UNKNOWN)
    found = by_number_of_gpus(made, estimate(made))
    assert len(found) == len(NUMBERS)
    for number, one in zip(NUMBERS, found):
        sizes = {"world_size": number, "data_parallel_size": number, "gpus_per_node": min(number, 8)}
        said = estimate(replace(made, {f"parallelism.{name}": size for name, size in sizes.items()}))
        assert one.device_bytes == said.device_bytes
    assert len({one.device_bytes for one in found}) > 1


def test_a_run_that_lacks_something_else_has_none() -> None:
    made = run(**ZERO3, parallelism__world_size=UNKNOWN, sequence__length=UNKNOWN)
    assert by_number_of_gpus(made, estimate(made)) == ()
    known = run()
    assert by_number_of_gpus(known, estimate(known)) == ()


def test_estimate_shows_them_and_check_does_not(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": FSDP2})
    told = memlint(tmp_path, "estimate", "train.yaml", "--gpu", "RTX4090").out
    assert "  by the number of GPUs:\n" in told
    assert "on one GPU: out of memory\n" in told and "on each of 32 GPUs: fits\n" in told
    assert "on each of" not in memlint(tmp_path, "check", "train.yaml").out
