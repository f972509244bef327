"""EasyR1's files and commands: recognition, what each key means (EasyR1 0.3.3), edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.catalog import half_weights
from memlint.formats import recognise
from memlint.formats.easyr1 import format as easyr1
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config(TINY)
FILE: dict[str, Any] = {
    "data": {"max_prompt_length": 1024, "max_response_length": 2048, "rollout_batch_size": 512},
    "algorithm": {"adv_estimator": "grpo", "disable_kl": False, "use_kl_loss": True},
    "worker": {
        "actor": {
            "global_batch_size": 128,
            "micro_batch_size_per_device_for_update": 2,
            "micro_batch_size_per_device_for_experience": 8,
            "model": {"model_path": "some/model"},
            "offload": {"offload_params": True, "offload_optimizer": True},
        },
        "rollout": {"n": 5, "gpu_memory_utilization": 0.7, "tensor_parallel_size": 1},
        "ref": {"fsdp": {"enable_cpu_offload": True}},
    },
    "trainer": {"n_gpus_per_node": 8, "nnodes": 2},
}


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def read(value: Any) -> Run:
    return run_of(easyr1.parse(document(value), known()))


def changed(name: str, new: Any) -> dict[str, Any]:
    """The file with a dotted key set."""
    found: dict[str, Any] = json.loads(json.dumps(FILE))
    *steps, last = name.split(".")
    inner = found
    for step in steps:
        inner = inner.setdefault(step, {})
    inner[last] = new
    return found


def test_recognised_by_the_section_of_its_workers() -> None:
    found = recognise(document(FILE))
    assert found is not None and found[0].NAME == "easyr1"
    assert recognise(document({"worker": {"image": "x"}, "data": {}})) is None


def test_a_file_is_a_run() -> None:
    run = read(FILE)
    assert (run.method.stage, run.method.kind, run.method.reference_model) == ("grpo", "full", "copy")
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (2, 20)
    assert (run.sequence.length, run.sequence.max_prompt_length) == (3072, 1024)
    assert (run.model.weights_dtype, run.optimizer.name) == ("float32", "adamw_torch_fused")
    assert (run.parallelism.world_size, run.parallelism.engine) == (16, "fsdp")
    assert (run.rollout.generator, run.rollout.share, run.rollout.sleep_level) == ("vllm_colocate", 0.7, 1)
    assert (run.rollout.log_prob_micro_batch_size, run.rollout.reference_micro_batch_size) == (8, 8)
    assert run.rollout.offloads_weights and run.rollout.offloads_optimizer and run.rollout.offloads_reference


@pytest.mark.parametrize(
    ("key", "value", "fields"),
    [
        ("worker.actor.fsdp.torch_dtype", "bf16", {"model.weights_dtype": "bfloat16"}),
        ("worker.actor.optim.strategy", "adamw_bf16", {"optimizer.name": "adamw_anyprecision_bf16"}),
        (
            *("worker.actor.model.lora.rank", 32),
            {"method.kind": "lora", "method.rank": 32, "model.weights_dtype": "bfloat16"}
            | {"precision.trainable_dtype": "float32", "method.reference_model": "shared"},
        ),
        ("algorithm.disable_kl", True, {"method.reference_model": "none", "rollout.reference_micro_batch_size": 0}),
        ("worker.ref.fsdp.enable_cpu_offload", False, {"rollout.offloads_reference": False}),
        ("worker.actor.ulysses_size", 4, {"parallelism.data_parallel_size": 4, "batch.micro_batch_size": 2}),
        ("worker.actor.fsdp.enable_full_shard", False, {"parallelism.fsdp.strategy": "SHARD_GRAD_OP"}),
        ("worker.actor.fsdp.fsdp_size", 8, {"parallelism.fsdp.strategy": "HYBRID_SHARD"}),
        ("worker.actor.global_batch_size", 3, {"batch.micro_batch_size": 1}),
        ("algorithm.adv_estimator", "gae", {"method.stage": "ppo", "method.value_model.micro_batch_size": 4}),
        ("data.max_response_length", None, {"sequence.length": UNKNOWN}),
        ("worker.actor.model.model_path", "${MODEL}", {"model.name": UNKNOWN}),
    ],
)
def test_what_keys_mean(key: str, value: Any, fields: dict[str, Any]) -> None:
    run = read(changed(key, value))
    assert {field: get(run, field) for field in fields} == fields


@pytest.mark.parametrize(
    ("keys", "trains"),
    [
        ({}, True),
        ({"freeze_vision_tower": True}, False),
        ({"lora": {"rank": 8, "exclude_modules": ".*visual.*"}}, False),
        ({"lora": {"rank": 8}}, True),
        ({"lora": {"rank": 0, "exclude_modules": ".*visual.*"}}, True),
    ],
)
def test_a_tower_trains_unless_it_is_left_out(keys: dict[str, Any], trains: bool) -> None:
    sees = in_memory({}).context().find_model("Qwen/Qwen2.5-VL-7B-Instruct", "/")
    value = changed("worker.actor.model", {"model_path": "some/model", **keys})
    run = run_of(easyr1.parse(document(value), known()._replace(find_model=lambda name, path: sees)))
    assert run.method.freeze_vision_tower is not trains


def of_command(arguments: str, files: dict[str, str]) -> Run:
    workspace = in_memory({"/examples/run.sh": f"MODEL=Qwen/Qwen3-4B\n{arguments}\n", **files})
    (found,) = workspace.documents("examples/run.sh")
    return run_of(easyr1.parse(found, workspace.context()))


def test_overrides_of_a_command_lie_over_its_file() -> None:
    command = "python3 -m verl.trainer.main config=examples/config.yaml worker.actor.model.model_path=${MODEL}"
    run = of_command(f"{command} trainer.n_gpus_per_node=4", {"/examples/config.yaml": json.dumps(FILE)})
    assert (run.model.name, run.parallelism.world_size) == ("Qwen/Qwen3-4B", 8)
    assert (run.batch.micro_batch_size, run.sequence.length) == (2, 3072)
    assert [path.lstrip("/") for path in run.related] == ["examples/config.yaml"]


def test_what_a_file_that_is_not_there_says_is_not_known() -> None:
    run = of_command("python3 -m verl.trainer.main config=own/config.yaml data.max_prompt_length=10", {})
    assert run.sequence.length is UNKNOWN and run.batch.micro_batch_size is UNKNOWN
    assert "`own/config.yaml`, a file that is not in the repository" in run.origins["batch.micro_batch_size"].detail


def test_nothing_is_trained_where_it_validates_alone() -> None:
    assert easyr1.parse(document(changed("trainer.val_only", True)), known()).runs == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 40},
        {"rollout.share": 0.5},
        {"method.kind": "lora", "method.rank": 8, "method.targets": ("q_proj", "v_proj")},
        {"checkpointing.mode": "none"},
        {"rollout.log_prob_micro_batch_size": 4},
        {"rollout.offloads_optimizer": False},
        {
            "model.weights_dtype": "bfloat16",
            "precision.trainable_dtype": "bfloat16",
            "optimizer.name": "adamw_anyprecision_bf16",
        },
    ],
)
def test_what_is_written_is_read_back(changes: dict[str, Any]) -> None:
    parsed = easyr1.parse(document(FILE), known())
    edits = easyr1.edits(parsed, run_of(parsed), changes)
    again = read(applied(FILE, edits, "train.json"))
    assert {field: get(again, field) for field in changes} == changes


def test_training_in_half_precision_is_planned_where_its_optimizer_is_there() -> None:
    """An older copy of EasyR1 in the repository has none, unless the file names one."""
    copied = known()._replace(repository=in_memory({"/verl/trainer/main.py": "def main(): ...\n"}).context().repository)
    cases = ((FILE, known()), (FILE, copied), (changed("worker.actor.optim.strategy", "adamw"), copied))
    offered = [
        [step.title for step in half_weights(run_of(easyr1.parse(document(value), around)))] for value, around in cases
    ]
    assert [len(titles) for titles in offered] == [1, 0, 1]


def test_no_key_no_edit() -> None:
    parsed = easyr1.parse(document(FILE), known())
    assert easyr1.edits(parsed, run_of(parsed), {"loss.kind": "liger"}) is None


def test_wrong_types_are_reported() -> None:
    assert codes(easyr1.parse(document(changed("worker.rollout.gpu_memory_utilization", 7)), known())) != []
    assert codes(easyr1.parse(document(FILE), known())) == []


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_makes_parsing_raise(value: Any) -> None:
    easyr1.parse(document({"worker": value, "data": value}), known())
    easyr1.parse(document({**FILE, "worker": {"actor": value, "rollout": value, "critic": value}}), known())
    assert replace(read(FILE), {}) is not None


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_planned_adapter_has_the_dtypes_that_its_file_gives_it(dtype: str) -> None:
    changes = {"method.kind": "lora", "method.rank": 16}
    file = changed("worker.actor.fsdp.torch_dtype", dtype)
    parsed = easyr1.parse(document(file), known())
    before = run_of(parsed)
    after = read(applied(file, easyr1.edits(parsed, before, changes) or (), "train.json"))
    planned = consistent(replace(before, changes), before)
    assert planned.method.adapter_dtype == after.method.adapter_dtype
    assert planned.model.weights_dtype == after.model.weights_dtype
    assert after.method.kind == "lora" and after.model.weights_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("annotation", "found"), [("Any", []), ("List[str]", []), ("str", ["wrong-type"]), ("", ["wrong-type"])]
)
def test_a_fork_may_declare_another_type(annotation: str, found: list[str]) -> None:
    config = f"class DataConfig:\n    val_files: {annotation or 'str'} = None\n"
    source = f"from dataclasses import dataclass\n\n\n@dataclass\n{config}"
    workspace = in_memory({"/verl/trainer/config.py": source} if annotation else {})
    value = changed("data.val_files", ["a.parquet", "b.parquet"])
    assert codes(easyr1.parse(document(value), workspace.context())) == found
