"""TorchTitan's TOML: recognition, what each key means (TorchTitan 0.2.2 and 0.1.0), refusals, edits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from memlint.formats import recognise
from memlint.formats.base import Parsed
from memlint.formats.torchtitan import format as torchtitan
from memlint.formats.torchtitan.families import named
from memlint.formats.torchtitan.reading import KEPT
from memlint.memory.estimate import estimate
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from memlint.source.document import Document
from tests.formats.frameworks import ANYTHING, applied, document, run_of

KEYS: dict[str, Any] = {
    "model.name": '"llama3"',
    "model.flavor": '"8B"',
    "training.local_batch_size": "2",
    "training.global_batch_size": "32",
    "training.seq_len": "8192",
    "parallelism.data_parallel_shard_degree": "-1",
    "activation_checkpoint.mode": '"selective"',
    "activation_checkpoint.selective_ac_option": '"op"',
}


def toml(changes: dict[str, Any] | None = None) -> str:
    sections: dict[str, list[str]] = {}
    for name, value in {**KEYS, **(changes or {})}.items():
        section, _, key = name.rpartition(".")
        if value is not None:
            sections.setdefault(section, []).append(f"{key} = {value}")
    return "".join(f"[{name}]\n" + "\n".join(lines) + "\n\n" for name, lines in sections.items())


def loaded(changes: dict[str, Any] | None = None, files: dict[str, str] | None = None) -> tuple[Document, Any]:
    workspace = in_memory({"/train.toml": toml(changes), **(files or {})})
    (found,) = workspace.documents("train.toml")
    return found, workspace.context()


def parsed(changes: dict[str, Any] | None = None, gpus: Any = 8) -> Parsed:
    found, context = loaded(changes)
    return torchtitan.parse(found, context._replace(gpus=gpus, gpus_per_node=gpus))


def read(changes: dict[str, Any] | None = None, gpus: Any = 8) -> Run:
    return run_of(parsed(changes, gpus))


def test_recognised_by_a_flavor_and_a_training() -> None:
    found = recognise(loaded()[0])
    assert found is not None and found[0].NAME == "torchtitan"
    (other,) = in_memory({"/a.toml": "[model]\nname = 'x'\n[training]\nsteps = 3\n"}).documents("a.toml")
    assert recognise(other) is None
    assert recognise(document({"model": {"flavor": "8B"}, "training": {"seq_len": 8}})) is None


def test_a_file_is_a_run() -> None:
    run = read()
    assert (run.model.name, run.model.weights_dtype, run.model.from_scratch) == (
        "meta-llama/Llama-3.1-8B",
        "float32",
        True,
    )
    assert (run.method.stage, run.method.kind, run.optimizer.name) == ("pt", "full", "adamw_torch_fused")
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (2, 2)
    assert (run.sequence.length, run.sequence.length_is_bound) == (8192, False)
    fsdp = run.parallelism.fsdp
    assert (fsdp.version, fsdp.param_dtype, fsdp.reduce_dtype, fsdp.root_holds_ends) == (
        2,
        "bfloat16",
        "float32",
        False,
    )
    assert (run.parallelism.engine, run.parallelism.data_parallel_size) == ("fsdp", 8)
    assert (run.checkpointing.mode, run.checkpointing.keeps) == ("selective", KEPT)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"activation_checkpoint.mode": '"full"'}, {"checkpointing.mode": "full", "checkpointing.keeps": ()}),
        ({"activation_checkpoint.mode": '"none"'}, {"checkpointing.mode": "none"}),
        (
            {"activation_checkpoint.selective_ac_option": '"2"'},
            {"checkpointing.mode": "selective", "checkpointing.keeps": ()},
        ),
        ({"activation_checkpoint.selective_ac_option": '"1"'}, {"checkpointing.mode": "full"}),
        (
            {"activation_checkpoint.mode": '"memory_budget"'},
            {"checkpointing.mode": "selective", "checkpointing.keeps": ()},
        ),
        ({"training.global_batch_size": None}, {"batch.gradient_accumulation_steps": 1}),
        (
            {"training.dtype": '"bfloat16"'},
            {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16"},
        ),
        ({"training.enable_cpu_offload": "true"}, {"parallelism.fsdp.cpu_offload": True}),
        (
            {"parallelism.context_parallel_degree": "4"},
            {"parallelism.context_parallel_size": 4, "parallelism.data_parallel_size": 2, "parallelism.engine": "fsdp"},
        ),
        (
            {"parallelism.data_parallel_replicate_degree": "2"},
            {"parallelism.fsdp.strategy": "HYBRID_SHARD", "parallelism.fsdp.shard_group_size": 4},
        ),
        (
            {"parallelism.data_parallel_replicate_degree": "8", "parallelism.data_parallel_shard_degree": "1"},
            {"parallelism.engine": "ddp", "precision.autocast": True},
        ),
        ({"parallelism.fsdp_reshard_after_forward": '"never"'}, {"parallelism.fsdp.strategy": "SHARD_GRAD_OP"}),
        ({"compile.enable": "true"}, {"stack.compile": True, "loss.compiled": True}),
        ({"compile.enable": "true", "compile.components": '["loss"]'}, {"stack.compile": False, "loss.compiled": True}),
        ({"model.converters": '["quantize.linear.float8"]'}, {"precision.fp8": "torchao"}),
        ({"model.converters": '["mx"]'}, {"precision.fp8": "none", "stack.unmodelled": "the converter `mx`"}),
        ({"optimizer.implementation": '"for-loop"'}, {"optimizer.name": "adamw_torch", "optimizer.foreach": False}),
        ({"optimizer.early_step_in_backward": "true"}, {"optimizer.layerwise": True}),
        ({"model.flavor": '"8B_flex"'}, {"attention.implementation": "flex_attention"}),
        ({"model.flavor": '"mine"'}, {"model.name": UNKNOWN}),
        ({"model.name": '"qwen3"', "model.flavor": '"30B-A3B"'}, {"stack.unmodelled": "TorchTitan's own experts"}),
    ],
)
def test_what_keys_mean(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    run = read(changes)
    assert {field: get(run, field) for field in fields} == fields


def test_the_number_of_gpus_is_said_by_the_degrees_or_by_nobody() -> None:
    assert read(gpus=UNKNOWN).parallelism.world_size is UNKNOWN
    degrees = {"parallelism.data_parallel_shard_degree": "4", "parallelism.tensor_parallel_degree": "2"}
    found = read(degrees, UNKNOWN).parallelism
    assert (found.world_size, found.data_parallel_size, found.tensor_parallel_size) == (8, 4, 2)


def test_the_number_of_gpus_is_that_of_the_command_that_starts_it() -> None:
    start = "torchrun --nproc_per_node=8 torchtitan/train.py --job.config_file train.toml\n"
    (launch,) = in_memory({"/train.toml": toml(), "/go.sh": start}).context().repository.launch_commands("train.toml")
    assert (launch.gpus, launch.is_clear) == (8, True)


def test_one_gpu_has_no_fsdp() -> None:
    run = read(gpus=1)
    assert (run.parallelism.engine, run.precision.autocast) == ("single", True)


def test_older_files_have_other_names_and_leave_the_ends_to_the_root() -> None:
    changes = {
        "training.local_batch_size": None,
        "training.batch_size": "4",
        "training.compile": "true",
        "parallelism.data_parallel_shard_degree": None,
        "training.data_parallel_shard_degree": "-1",
        "experimental.context_parallel_degree": "2",
    }
    run = read(changes)
    assert (run.batch.micro_batch_size, run.stack.compile, run.parallelism.context_parallel_size) == (4, True, 2)
    assert run.parallelism.fsdp.root_holds_ends


def test_an_operator_checkpoint_keeps_more_than_a_layers_input_and_less_than_all() -> None:
    modes = {"full": {"checkpointing.mode": "full"}, "op": {}, "none": {"checkpointing.mode": "none"}}
    sizes = {name: estimate(replace(read(), change)).allocated_bytes or 0 for name, change in modes.items()}
    assert sizes["full"] < sizes["op"] < sizes["none"]
    tokens, layers = 2 * 8192, 32
    kept = 2 * tokens * layers * (4096 + 1024 + 4096 + 14336 + 4096)  # wq, wv, attention, w1, w2
    assert sizes["op"] - sizes["full"] == pytest.approx(kept, rel=0.05)


@pytest.mark.parametrize(
    ("name", "flavor"), [("llama3", "405B"), ("llama3_ft", "8B"), ("llama2", "7B"), ("qwen3", "32B")]
)
def test_models_are_those_of_the_hub(name: str, flavor: str) -> None:
    assert in_memory({}).context().find_model(named(name, flavor), "/").architecture is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training.local_batch_sizes": "2"}, "unknown key"),
        ({"trainings.steps": "2"}, "unknown key"),
        ({"training.seq_len": '"long"'}, "is no whole number"),
        ({"activation_checkpoint.mode": '"op"'}, "none of none, selective, full"),
        ({"training.global_batch_size": "30"}, "no multiple of 2 sequences on 8 ranks"),
    ],
)
def test_what_it_refuses_is_reported(changes: dict[str, Any], said: str) -> None:
    assert parsed().issues == ()
    found = [issue.message for issue in parsed(changes).issues]
    assert len(found) == 1 and said in found[0]


def test_a_copy_or_a_module_of_ones_own_may_have_more_keys() -> None:
    assert parsed({"training.mine": "2", "job.custom_config_module": '"my.config"'}).issues == ()
    copy = {"/torchtitan/train.py": "def main(): ...\n"}
    found, context = loaded({"training.mine": "2"}, copy)
    assert torchtitan.parse(found, context).issues == ()
    assert torchtitan.copy_of("CFG008", context) == "TorchTitan"
    assert torchtitan.copy_of("CFG008", loaded()[1]) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 4},
        {"checkpointing.mode": "full"},
        {"optimizer.learning_rate": 1e-5},
    ],
)
def test_what_is_written_is_read_back(changes: dict[str, Any]) -> None:
    before = parsed()
    value = applied(before.documents[0].value, torchtitan.edits(before, run_of(before), changes), "train.toml")
    assert value["training"]["global_batch_size"] == 32
    found = loaded()[0]._replace(value=value)
    again = run_of(torchtitan.parse(found, loaded()[1]._replace(gpus=8, gpus_per_node=8)))
    assert {field: get(again, field) for field in changes} == changes


def test_an_implied_global_batch_is_kept() -> None:
    before = parsed({"training.global_batch_size": None})
    changes = {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 2}
    value = applied(before.documents[0].value, torchtitan.edits(before, run_of(before), changes), "train.toml")
    assert (value["training"]["local_batch_size"], value["training"]["global_batch_size"]) == (1, 16)


def test_no_key_no_edit() -> None:
    before = parsed()
    assert torchtitan.edits(before, run_of(before), {"loss.kind": "liger"}) is None


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_makes_parsing_raise(value: Any) -> None:
    found, context = loaded()
    for one in (value, {"model": value, "training": value}, {"model": {"flavor": value}, "parallelism": value}):
        torchtitan.parse(found._replace(value=one), context)


@pytest.mark.parametrize(("release", "reads"), [((0, 2, 2), True), ((0, 3), False), ((), True)])
def test_releases_that_read_no_file(release: tuple[int, ...], reads: bool) -> None:
    """0.3.0 torchtitan/config/manager.py, ConfigManager: `--module llama3 --config llama3_8b`."""
    versions = {"torchtitan": release} if release else {}
    context = in_memory({"train.toml": toml()}).context()._replace(versions=versions)
    found = torchtitan.parse(document(toml(), "train.toml"), context)
    assert ("unreadable-config" in [issue.code for issue in found.issues]) != reads
