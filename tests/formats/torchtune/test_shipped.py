"""Commands that name a config of torchtune's own: its values, those of the command over them, releases, edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.formats.torchtune import families
from memlint.formats.torchtune import format as torchtune
from memlint.formats.torchtune import shipped as module
from memlint.formats.torchtune.shipped import shipped
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get
from tests.formats.frameworks import codes, context, run_of

LORA = "lora_finetune_single_device --config llama3_1/8B_lora_single_device"
FULL = "full_finetune_single_device --config llama3_2/3B_full_single_device"
SHARDED = "--nproc_per_node 8 full_finetune_distributed --config llama3_1/70B_full"
RELEASES = ((0, 3, 0), (0, 3, 1), (0, 4, 0), (0, 5, 0), (0, 6, 0), (0, 6, 1))
LINES = [json.loads(line) for line in Path(module._FILE).read_text(encoding="utf-8").splitlines()]


def parsed(command: str, **fields: Any) -> Any:
    (one,) = in_memory({"train.sh": f"tune run {command}\n"}).documents("train.sh")
    return torchtune.parse(one, context(**{"gpus": one.start.machine.gpus, **fields}))


def read(command: str, **fields: Any) -> Run:
    return run_of(parsed(command, **fields))


# -- values ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "fields"),
    [  # as torchtune 0.6.1 recipes/configs have them
        (
            LORA,
            {
                "model.name": "meta-llama/Llama-3.1-8B-Instruct",
                "model.weights_dtype": "bfloat16",
                "method.kind": "lora",
                "method.rank": 8,
                "method.targets": ("q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
                "batch.micro_batch_size": 2,
                "batch.gradient_accumulation_steps": 8,
                "optimizer.name": "adamw_torch_fused",
                "checkpointing.mode": "full",
                "offload.activations": "none",
                "loss.parts": 8,
                "sequence.length": UNKNOWN,  # `max_seq_len: null`
                "sequence.packing": False,
                "stack.compile": False,
            },
        ),
        (
            FULL,
            {
                "model.name": "meta-llama/Llama-3.2-3B-Instruct",
                "method.kind": "full",
                "batch.micro_batch_size": 4,
                "batch.gradient_accumulation_steps": 1,
                "optimizer.name": "paged_adamw_8bit",
                "optimizer.layerwise": True,
                "optimizer.learning_rate": 2e-5,
                "checkpointing.mode": "full",
            },
        ),
        (
            SHARDED,
            {
                "model.name": "meta-llama/Llama-3.1-70B-Instruct",
                "parallelism.world_size": 8,
                "parallelism.engine": "fsdp",
                "parallelism.tensor_parallel_size": 1,
                "parallelism.fsdp.cpu_offload": True,
                "parallelism.fsdp.root_holds_ends": False,
                "batch.micro_batch_size": 2,
                "optimizer.name": "adamw_torch",  # `fused: False`
            },
        ),
    ],
)
def test_the_values_of_the_config_that_is_named(command: str, fields: dict[str, Any]) -> None:
    run = read(command)
    assert {name: get(run, name) for name in fields} == fields


def test_the_command_stands_over_them() -> None:
    run = read(f"{LORA} batch_size=16 tokenizer.max_seq_len=2048 model.lora_rank=64 optimizer=torch.optim.SGD")
    assert (run.batch.micro_batch_size, run.sequence.length, run.method.rank) == (16, 2048, 64)
    assert run.optimizer.name == "sgd" and run.optimizer.learning_rate == 3e-4
    assert run.origins["batch.micro_batch_size"].kind == "file"


def test_they_are_defaults_with_their_source() -> None:
    origin = read(LORA).origins["batch.micro_batch_size"]
    source = "torchtune 0.6.1 recipes/configs/llama3_1/8B_lora_single_device.yaml"
    assert (origin.kind, origin.detail) == ("default", source)


def test_what_the_config_has_not_either_is_the_recipes_default() -> None:
    assert read(LORA).origins["optimizer.layerwise"].detail == "torchtune 0.6.1"


def test_a_file_of_the_repository_comes_first() -> None:
    file = {"llama3_1/8B_lora_single_device.yaml": {"batch_size": 32}}
    assert read(LORA, files=file).batch.micro_batch_size == 32


def test_what_contradicts_them_is_told_at_the_command() -> None:
    assert "conflict" in codes(parsed(f"{FULL} gradient_accumulation_steps=4"))  # `optimizer_in_bwd: True`
    assert codes(parsed(f"{FULL} batch_size=8")) == codes(parsed(FULL)) == []


# -- names and releases ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "fields"),
    [
        ("llama9/8B_lora_single_device", {}),
        ("llama3_1/8B_lora", {"versions": {"torchtune": (0, 7)}}),
        ("phi4/14B_lora_single_device", {"versions": {"torchtune": (0, 5)}}),  # since 0.6
        ("llama3_1/8B_lora_single_device", {"at_commits": frozenset(("torchtune",))}),
    ],
)
def test_names_that_the_release_has_not_stay_unknown(config: str, fields: Any) -> None:
    run = read(f"lora_finetune_single_device --config {config}", **fields)
    assert run.model.architecture is UNKNOWN and run.batch.micro_batch_size is UNKNOWN
    assert "not one of the repository" in run.origins["batch.micro_batch_size"].detail


def test_a_path_is_no_name() -> None:
    assert read(f"{LORA}.yaml").batch.micro_batch_size is UNKNOWN


@pytest.mark.parametrize(("stated", "steps"), [((0, 3), 64), ((0, 3, 0), 64), ((0, 4), 8), ((0, 6, 1), 8), ((), 8)])
def test_a_release_that_is_stated_has_its_own_values(stated: tuple[int, ...], steps: int) -> None:
    run = read(LORA, versions={"torchtune": stated} if stated else {})
    assert run.batch.gradient_accumulation_steps == steps


# -- edits ----------------------------------------------------------------------------------


def test_changes_go_to_the_command() -> None:
    found = parsed(f"{LORA} batch_size=4")
    edits = torchtune.edits(found, run_of(found), {"batch.micro_batch_size": 1, "offload.activations": "cpu"})
    assert edits is not None and {edit.pointer[-1]: edit.value for edit in edits} == {
        "batch_size": 1,
        "enable_activation_offloading": True,
    }
    assert {edit.path for edit in edits} == {"train.sh"}


def test_a_command_takes_no_argument_out_of_the_config() -> None:
    name = {"optimizer.name": "paged_adamw_8bit"}
    fused = parsed(LORA)  # `fused: True`, which bitsandbytes does not take
    assert torchtune.edits(fused, run_of(fused), name) is None
    plain = parsed("full_finetune_single_device --config llama3/8B_full_single_device optimizer._component_=x.Y")
    assert torchtune.edits(plain, run_of(plain), name) is None


# -- the table ------------------------------------------------------------------------------


def test_each_name_has_one_line_for_a_release() -> None:
    found = [
        (line["name"], release)
        for line in LINES
        for release in RELEASES
        if _release(line["releases"][0]) <= release <= _release(line["releases"][1])
    ]
    assert len(found) == len(set(found)) and len({name for name, release in found if release == (0, 6, 1)}) > 100
    assert all(shipped(*one) is not None for one in found)


def test_the_models_are_known_or_it_is_said_why_not() -> None:
    components = {line["values"]["model"]["_component_"] for line in LINES if "model" in line["values"]}
    assert [one for one in sorted(components) if not families.name_of(one) and not families.why_not_modelled(one)] == []


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
