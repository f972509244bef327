"""SkyRL's commands and files: recognition, what each key means (SkyRL 0.3.0, skyrl-train 0.4.0), refusals, edits."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.fixes.consequences import consistent
from memlint.formats import recognise
from memlint.formats.skyrl import format as skyrl
from memlint.formats.skyrl.config import older_name
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config(TINY)
MAIN, OLDER = "skyrl.train.entrypoints.main_base", "skyrl_train.entrypoints.main_base"
KEYS: dict[str, Any] = {
    "trainer.policy.model.path": "some/model",
    "trainer.placement.policy_num_gpus_per_node": 8,
    "trainer.strategy": "fsdp",
    "trainer.train_batch_size": 512,
    "trainer.policy_mini_batch_size": 128,
    "trainer.micro_train_batch_size_per_gpu": 4,
    "trainer.micro_forward_batch_size_per_gpu": 8,
    "trainer.max_prompt_length": 1024,
    "generator.sampling_params.max_generate_length": 2048,
    "generator.n_samples_per_prompt": 5,
    "generator.inference_engine.num_engines": 8,
    "generator.inference_engine.tensor_parallel_size": 1,
    "generator.inference_engine.gpu_memory_utilization": 0.7,
}


def nested(keys: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in keys.items():
        *steps, last = name.split(".")
        inner = found
        for step in steps:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return found


def known(**fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def read(changes: dict[str, Any] | None = None) -> Run:
    return run_of(skyrl.parse(document(nested({**KEYS, **(changes or {})})), known()))


def command(keys: dict[str, Any], program: str = MAIN, files: dict[str, str] | None = None) -> Any:
    """The launch of the keys, and its context."""
    words = " ".join(shlex.quote(f"{name}={_text(value)}") for name, value in keys.items())
    workspace = in_memory({"/run.sh": f"uv run --isolated --extra vllm -m {program} {words}\n", **(files or {})})
    (found,) = workspace.documents("run.sh")
    return found, workspace.context()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def older(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    return {older_name(name): value for name, value in {**KEYS, **(changes or {})}.items()}


def messages(keys: dict[str, Any], program: str = MAIN, files: dict[str, str] | None = None) -> list[str]:
    return [issue.message for issue in skyrl.parse(*command(keys, program, files)).issues]


def test_recognised_by_its_policy_and_generator() -> None:
    found = recognise(document(nested(KEYS)))
    assert found is not None and found[0].NAME == "skyrl"
    assert recognise(document({"trainer": {"policy": "x"}, "generator": {}})) is None


@pytest.mark.parametrize("program", [MAIN, OLDER, "examples.algorithms.dapo.main_dapo"])
def test_a_command_of_it_or_of_a_program_made_with_it_is_its(program: str) -> None:
    found, _ = command(KEYS, program)
    assert found.start is not None
    assert (found.start.format, found.start.program.entry) == ("skyrl", program)


def test_a_program_that_only_generates_trains_nothing() -> None:
    words = " ".join(f"{name}={_text(value)}" for name, value in KEYS.items())
    script = f"python -m skyrl_train.entrypoints.main_generate {words}\n"
    assert all(
        one.start is None or one.start.format != "skyrl" for one in in_memory({"/run.sh": script}).documents("run.sh")
    )


def test_a_command_is_a_run() -> None:
    run = read()
    assert (run.method.stage, run.method.kind, run.method.reference_model) == ("grpo", "full", "copy")
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (4, 20)
    assert (run.sequence.length, run.sequence.max_prompt_length, run.sequence.unpadded) == (3072, 1024, True)
    assert (run.model.weights_dtype, run.optimizer.name) == ("float32", "adamw_torch")
    assert (run.parallelism.world_size, run.parallelism.engine, run.parallelism.fsdp.version) == (8, "fsdp", 2)
    assert run.parallelism.fsdp.root_holds_ends and run.parallelism.fsdp.embedding_apart
    assert (run.rollout.generator, run.rollout.share, run.rollout.sleep_level) == ("vllm_colocate", 0.7, 2)
    assert (run.rollout.log_prob_micro_batch_size, run.rollout.reference_micro_batch_size) == (8, 8)
    assert run.rollout.offloads_weights and run.rollout.offloads_optimizer and run.rollout.offloads_reference
    assert (run.rollout.sync_bucket_bytes, run.rollout.model_processes) == (1 << 30, 1)
    assert (run.loss.kind, run.loss.entropy, run.loss.keeps_logits) == ("fused_ce", "watched", True)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        (
            {"trainer.policy.model.lora.rank": 32},
            {"method.kind": "lora", "method.rank": 32, "model.weights_dtype": "float32", "rollout.sleep_level": 1}
            | {"method.reference_model": "copy", "rollout.sync_bucket_bytes": 0},
        ),
        (
            {"trainer.algorithm.use_kl_loss": False},
            {"method.reference_model": "none", "rollout.reference_micro_batch_size": 0, "rollout.model_processes": 0},
        ),
        (
            {"trainer.placement.colocate_all": False},
            {"rollout.generator": "vllm", "rollout.offloads_weights": True, "rollout.share": 0.0},
        ),
        (
            {"trainer.placement.colocate_all": False, "trainer.placement.colocate_policy_ref": False},
            {"rollout.offloads_weights": False, "method.reference_model": "none"},
        ),
        ({"trainer.policy.optimizer_config.offload_after_step": False}, {"rollout.offloads_optimizer": False}),
        (
            {"trainer.policy.fsdp_config.cpu_offload": True},
            {"parallelism.fsdp.cpu_offload": True, "rollout.offloads_weights": False},
        ),
        (
            {"trainer.policy.sequence_parallel_size": 4},
            {"parallelism.data_parallel_size": 2, "batch.gradient_accumulation_steps": 80},
        ),
        ({"trainer.policy.fsdp_config.reshard_after_forward": False}, {"parallelism.fsdp.strategy": "SHARD_GRAD_OP"}),
        ({"trainer.policy.fsdp_config.fsdp_size": 4}, {"parallelism.fsdp.strategy": "HYBRID_SHARD"}),
        ({"trainer.policy_mini_batch_size": 4}, {"batch.micro_batch_size": 2}),
        (
            {"trainer.max_tokens_per_microbatch": 9216},
            {"batch.max_tokens": 9216, "batch.micro_batch_size": 3, "rollout.log_prob_length": 9216},
        ),
        ({"trainer.max_tokens_per_microbatch": 512}, {"batch.max_tokens": 3072}),
        ({"generator.max_turns": 3, "generator.max_input_length": 8192}, {"sequence.length": 10240}),
        ({"generator.max_input_length": 8192}, {"sequence.length": 3072}),
        ({"trainer.flash_attn": False}, {"attention.implementation": "sdpa"}),
        ({"trainer.remove_microbatch_padding": False}, {"sequence.unpadded": False, "loss.chunk_tokens": 4096}),
        ({"trainer.gradient_checkpointing": False}, {"checkpointing.mode": "none"}),
        (
            {"trainer.critic.model.path": "some/model"},
            {"method.stage": "ppo", "method.value_model.micro_batch_size": 4},
        ),
        (
            {"trainer.strategy": "megatron", "trainer.policy.megatron_config.tensor_model_parallel_size": 4},
            {"parallelism.engine": "megatron", "parallelism.data_parallel_size": 2, "checkpointing.mode": "full"}
            | {"precision.master_weights": True, "model.weights_dtype": "bfloat16"},
        ),
        ({"trainer.strategy": "deepspeed"}, {"stack.unmodelled": "SkyRL's engine `deepspeed`"}),
        ({"generator.sampling_params.max_generate_length": "${LENGTH}"}, {"sequence.length": UNKNOWN}),
        ({"trainer.policy.model.path": "${MODEL}"}, {"model.name": UNKNOWN}),
    ],
)
def test_what_keys_mean(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    run = read(changes)
    assert {field: get(run, field) for field in fields} == fields


def test_an_entropy_with_a_gradient_is_not_modelled() -> None:
    run = read({"trainer.algorithm.use_entropy_loss": True})
    assert "use_entropy_loss" in run.stack.unmodelled and run.stack.unmodelled_adds


@pytest.mark.parametrize(("program", "version"), [(MAIN, 2), (OLDER, 1)])
def test_fsdp_was_another_engine_in_older_releases(program: str, version: int) -> None:
    keys = KEYS if program == MAIN else older()
    run = run_of(skyrl.parse(*command(keys, program)))
    assert run.parallelism.fsdp.version == version
    assert run.rollout.share == 0.7 and run.rollout.tensor_parallel_size == 1


def test_the_defaults_of_older_releases_differ() -> None:
    keys = {name: value for name, value in older().items() if "gpus" not in name and "tensor" not in name}
    run = run_of(skyrl.parse(*command(keys, OLDER)))
    assert run.parallelism.world_size is UNKNOWN and run.rollout.tensor_parallel_size is UNKNOWN


def test_a_copys_own_file_lies_below_the_overrides() -> None:
    file = "trainer:\n  placement: {policy_num_gpus_per_node: 2}\n  max_prompt_length: 100\ngenerator: {max_turns: 1}\n"
    keys = {name: value for name, value in older().items() if "gpus" not in name and "prompt_length" not in name}
    found = skyrl.parse(*command(keys, OLDER, {"/skyrl_train/config/ppo_base_config.yaml": file}))
    run = run_of(found)
    assert (run.parallelism.world_size, run.sequence.max_prompt_length) == (2, 100)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trainer.policy_mini_batch_size": 100}, "no multiple of `trainer.policy_mini_batch_size`"),
        ({"trainer.micro_train_batch_size_per_gpu": 3}, "no multiple of `trainer.micro_train_batch_size_per_gpu`"),
        ({"generator.inference_engine.num_engines": 4}, "the engines take 4 GPUs"),
        ({"trainer.algorithm.advantage_estimator": "gae"}, "needs a critic"),
        ({"trainer.algorithm.use_kl_in_reward": True}, "are both true"),
        ({"generator.max_input_length": 8192}, "is not `trainer.max_prompt_length`"),
        ({"generator.max_turns": 2, "generator.max_input_length": 512}, "less than `trainer.max_prompt_length`"),
        ({"trainer.policy.sequence_parallel_size": 3}, "cannot be divided by the 3"),
        ({"trainer.train_batch_sizes": 8}, "unknown key"),
        ({"trainer.train_batch_size": "many"}, "is no whole number"),
        ({"generator.inference_engine.gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"trainer.strategy": "megatron", "trainer.critic.model.path": "some/model"}, "trains no critic"),
        (
            {"trainer.placement.colocate_all": False, "trainer.placement.ref_num_gpus_per_node": 4},
            "is not `trainer.placement.policy_num_gpus_per_node`",
        ),
    ],
)
def test_what_it_refuses_is_reported(changes: dict[str, Any], said: str) -> None:
    assert messages(KEYS) == []
    found = messages({**KEYS, **changes})
    assert len(found) == 1 and said in found[0]


def test_a_program_of_ones_own_and_a_copy_may_have_keys_of_their_own() -> None:
    keys = {**KEYS, "trainer.algorithm.mine": 1, "trainer.policy_mini_batch_size": 100}
    assert messages(keys, "my.main_mine") == []
    copy = {"/skyrl/train/utils/utils.py": "def validate_cfg(cfg): ...\n"}
    assert messages(keys, files=copy) == []
    whole = {"/skyrl/train/utils/utils.py": "def validate_cfg(cfg): ...\n\n\ndef validate_batch_sizes(cfg): ...\n"}
    assert len(messages(keys, files=whole)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 40},
        {"rollout.share": 0.5},
        {"method.kind": "lora", "method.rank": 8, "method.targets": ("q_proj", "v_proj")},
        {"checkpointing.mode": "none"},
        {"rollout.log_prob_micro_batch_size": 4, "rollout.reference_micro_batch_size": 4},
        {"rollout.offloads_optimizer": False},
        {"parallelism.sequence_parallel_size": 2},
        {"rollout.max_model_len": 4096},
    ],
)
def test_what_is_written_is_read_back(changes: dict[str, Any]) -> None:
    file = nested(KEYS)
    parsed = skyrl.parse(document(file), known())
    edits = skyrl.edits(parsed, run_of(parsed), changes)
    again = run_of(skyrl.parse(document(applied(file, edits, "train.json")), known()))
    assert {field: get(again, field) for field in changes} == changes


def test_an_older_command_gets_older_keys() -> None:
    found, around = command(older(), OLDER)
    parsed = skyrl.parse(found, around)
    edits = skyrl.edits(parsed, run_of(parsed), {"rollout.share": 0.5, "rollout.max_model_len": 4096})
    assert [".".join(map(str, edit.pointer)) for edit in edits or ()] == [
        *("generator.gpu_memory_utilization", "generator.engine_init_kwargs.max_model_len")
    ]


def test_no_key_no_edit() -> None:
    parsed = skyrl.parse(document(nested(KEYS)), known())
    assert skyrl.edits(parsed, run_of(parsed), {"loss.kind": "liger"}) is None


def test_a_planned_adapter_is_the_one_that_its_file_makes() -> None:
    changes = {"method.kind": "lora", "method.rank": 16}
    file = nested(KEYS)
    parsed = skyrl.parse(document(file), known())
    before = run_of(parsed)
    edited = applied(file, skyrl.edits(parsed, before, changes) or (), "train.json")
    after = run_of(skyrl.parse(document(edited), known()))
    planned = consistent(replace(before, changes), before)
    for field in ("method.adapter_dtype", "model.weights_dtype", "rollout.sleep_level", "rollout.sync_bucket_bytes"):
        assert get(planned, field) == get(after, field), field


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_makes_parsing_raise(value: Any) -> None:
    skyrl.parse(document({"trainer": value, "generator": value}), known())
    skyrl.parse(document({"trainer": {"policy": value, "placement": value, "critic": value}, "generator": {}}), known())
    assert codes(skyrl.parse(document(nested(KEYS)), known())) == []
