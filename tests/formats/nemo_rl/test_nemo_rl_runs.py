"""NeMo-RL's files and commands: recognition, what each key means (NeMo-RL 0.2 to 0.7), findings, edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.formats import recognise
from memlint.formats.nemo_rl import format as nemo_rl
from memlint.memory.estimate import estimate
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, Run, get, replace
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config(TINY)
OF_EXPERTS = from_config(
    {
        **TINY,
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
    }
)
FILE: dict[str, Any] = {
    "grpo": {"num_prompts_per_step": 32, "num_generations_per_prompt": 16},
    "loss_fn": {"reference_policy_kl_penalty": 0.01},
    "policy": {
        "model_name": "some/model",
        "train_global_batch_size": 512,
        "train_micro_batch_size": 4,
        "logprob_batch_size": 4,
        "max_total_sequence_length": 2048,
        "precision": "bfloat16",
        "max_grad_norm": 1.0,
        "dtensor_cfg": {
            "_v2": True,
            "enabled": True,
            "cpu_offload": False,
            "activation_checkpointing": False,
            "tensor_parallel_size": 1,
            "context_parallel_size": 1,
            "automodel_kwargs": {},
        },
        "megatron_cfg": {"enabled": False},
        "sequence_packing": {
            "enabled": False,
            "train_mb_tokens": "${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}",
        },
        "dynamic_batching": {"enabled": False},
        "optimizer": {"name": "torch.optim.AdamW", "kwargs": {"lr": 5.0e-6}},
        "generation": {
            "backend": "vllm",
            "colocated": {"enabled": True, "resources": {"gpus_per_node": None, "num_nodes": None}},
            "vllm_cfg": {"gpu_memory_utilization": 0.6, "tensor_parallel_size": 1, "max_model_len": 2048},
        },
    },
    "cluster": {"gpus_per_node": 8, "num_nodes": 2},
}


def known(architecture: Any = LLAMA, **fields: Any) -> Any:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", architecture))


def read(value: Any, **fields: Any) -> Run:
    return run_of(nemo_rl.parse(document(value), known(**fields)))


def changed(*pairs: tuple[str, Any]) -> dict[str, Any]:
    """The file with dotted keys set."""
    found: dict[str, Any] = json.loads(json.dumps(FILE))
    for name, new in pairs:
        *steps, last = name.split(".")
        inner = found
        for step in steps:
            inner = inner.setdefault(step, {})
        inner[last] = new
    return found


MEGATRON = (("policy.megatron_cfg.enabled", True), ("policy.dtensor_cfg.enabled", False))


@pytest.mark.parametrize(
    "value",
    [
        FILE,
        {"defaults": "../../grpo_math_1B.yaml", "policy": {"model_name": "a/b", "dtensor_cfg": {"_v2": False}}},
        {"sft": {"max_num_steps": 10}, "policy": {"max_total_sequence_length": 10}, "cluster": {"gpus_per_node": 8}},
        {"policy": {"generation": {"vllm_cfg": {}}, "train_micro_batch_size": 1}, "cluster": {"num_nodes": 1}},
        {"defaults": "./grpo.yaml", "cluster": {"gpus_per_node": 4}},
    ],
)
def test_recognised_by_keys_of_its_policy(value: Any) -> None:
    found = recognise(document(value))
    assert found is not None and found[0].NAME == "nemo_rl"


@pytest.mark.parametrize(
    "value",
    [
        {"policy": {"hidden_sizes": [64, 64], "lr": 0.001}, "cluster": {"gpus_per_node": 8}},
        {"policy": {"type": "act"}, "dataset": {"repo_id": "a/b"}, "batch_size": 8},
        {"policy": "default", "grpo": {"beta": 0.1}},
        {"defaults": ["_self_", "model: llama"], "cluster": {"gpus_per_node": 4}, "trainer": {}},
        {"generation": {"vllm_cfg": {"max_model_len": 10}, "backend": "vllm"}, "cluster": {"gpus_per_node": 1}},
        {"defaults": "../base.yaml", "logger": {}},
    ],
)
def test_other_files_with_a_policy_are_not_its_own(value: Any) -> None:
    found = recognise(document(value))
    assert found is None or found[0].NAME != "nemo_rl"


def test_a_file_is_a_run() -> None:
    run = read(FILE)
    assert (run.method.stage, run.method.kind, run.method.reference_model) == ("grpo", "full", "precomputed")
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps, run.batch.max_tokens) == (4, 8, 0)
    assert (run.sequence.length, run.rollout.log_prob_micro_batch_size) == (2048, 4)
    assert (run.model.weights_dtype, run.precision.compute, run.optimizer.name) == (
        *("float32", "bfloat16", "torch.optim.adamw"),
    )
    assert (run.parallelism.world_size, run.parallelism.gpus_per_node, run.parallelism.data_parallel_size) == (
        16,
        8,
        16,
    )
    assert (run.parallelism.engine, run.parallelism.fsdp.version, run.parallelism.fsdp.param_dtype) == (
        *("fsdp", 2, "bfloat16"),
    )
    assert (run.rollout.generator, run.rollout.share, run.rollout.sleep_level) == ("vllm_colocate", 0.6, 1)
    assert run.rollout.offloads_weights and run.rollout.offloads_optimizer and run.rollout.offloads_until_update
    assert not run.rollout.gathers_for_log_probs and run.stack.transformers == (5, 5)
    found = estimate(run)
    assert found.allocated_bytes and found.details["host_loading_bytes"] == 4 * found.parameters


@pytest.mark.parametrize(
    ("pairs", "fields"),
    [
        ([("policy.precision", "float32")], {"precision.autocast": False, "parallelism.fsdp.param_dtype": "float32"}),
        ([("policy.precision", "int8")], {"precision.compute": UNKNOWN}),
        ([("policy.dtensor_cfg._v2", False)], {"rollout.gathers_for_log_probs": True}),
        ([("policy.dtensor_cfg.cpu_offload", True)], {"parallelism.fsdp.cpu_offload": True}),
        ([("policy.dtensor_cfg.context_parallel_size", 2)], {"parallelism.data_parallel_size": 8}),
        ([("policy.dtensor_cfg.tensor_parallel_size", 4)], {"stack.unmodelled_adds": True}),
        ([("policy.dtensor_cfg.expert_parallel_size", 8)], {"stack.unmodelled_adds": False}),
        (
            [("policy.dtensor_cfg.dp_replicate_size", 4)],
            {"parallelism.fsdp.strategy": "HYBRID_SHARD", "parallelism.fsdp.shard_group_size": 4},
        ),
        ([("loss_fn.reference_policy_kl_penalty", 0)], {"method.reference_model": "none"}),
        ([("policy.sequence_packing.enabled", True)], {"batch.max_tokens": 0, "sequence.length_is_bound": False}),
        (
            [("policy.sequence_packing.enabled", True), ("policy.sequence_packing.train_mb_tokens", 5000)],
            {"batch.max_tokens": 5000, "batch.micro_batch_size": 2, "attention.implementation": "flash_attention_2"},
        ),
        (
            [("policy.dynamic_batching.enabled", True), ("policy.dynamic_batching.train_mb_tokens", 5000)],
            {"batch.max_tokens": 5000, "sequence.length_is_bound": True},
        ),
        (
            [("policy.sequence_packing.enabled", True), ("policy.sequence_packing.logprob_mb_tokens", 6000)],
            {"rollout.log_prob_micro_batch_size": 1, "rollout.log_prob_length": 6000},
        ),
        ([("policy.optimizer.kwargs.fused", True)], {"optimizer.name": "adamw_torch_fused"}),
        ([("policy.optimizer.kwargs.foreach", False)], {"optimizer.foreach": False}),
        ([("policy.optimizer", None)], {"optimizer.name": UNKNOWN}),
        ([("policy.model_name", "${MODEL}")], {"model.name": UNKNOWN}),
        ([("policy.max_total_sequence_length", "???")], {"sequence.length": UNKNOWN}),
        ([("cluster.gpus_per_node", None)], {"parallelism.world_size": UNKNOWN}),
        ([("policy.train_micro_batch_size", None)], {"batch.micro_batch_size": UNKNOWN}),
        ([("policy.generation.vllm_cfg.gpu_memory_utilization", 7)], {"rollout.share": UNKNOWN}),
        ([("policy.generation.backend", "sglang")], {"rollout.share_of_free": True, "rollout.share": UNKNOWN}),
        (
            [("policy.dtensor_cfg.env_vars", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})],
            {"stack.expandable_segments": True},
        ),
        ([("policy.hf_config_overrides", {"num_hidden_layers": 2})], {"stack.unmodelled_adds": True}),
        (
            [("policy.hf_config_overrides", {"max_position_embeddings": 9000})],
            {"stack.unmodelled": "", "sequence.rope_scaling": "overridden"},
        ),
        (
            [("policy.dtensor_cfg.lora_cfg", {"enabled": True, "dim": 16, "target_modules": ["q_proj"]})],
            {"method.kind": "lora", "method.rank": 16, "stack.unmodelled_adds": True},
        ),
        ([("policy.dtensor_cfg.automodel_kwargs.use_liger_kernel", True)], {"stack.unmodelled_adds": True}),
    ],
)
def test_what_keys_mean(pairs: list[tuple[str, Any]], fields: dict[str, Any]) -> None:
    run = read(changed(*pairs))
    assert {field: get(run, field) for field in fields} == fields


@pytest.mark.parametrize(
    ("v2", "release", "by_parts"),
    [(False, None, True), (True, (0, 5), True), (True, (0, 6), False), (True, None, False)],
)
def test_parts_of_layers_are_checkpointed_by_the_first_worker_and_by_older_releases(
    v2: bool, release: tuple[int, ...] | None, by_parts: bool
) -> None:
    value = changed(("policy.dtensor_cfg._v2", v2), ("policy.dtensor_cfg.activation_checkpointing", True))
    run = read(value, versions={"nemo_rl": release} if release else {})
    assert (run.checkpointing.mode, run.checkpointing.by_parts, run.checkpointing.reentrant) == (
        *("full", by_parts, not by_parts),
    )


def test_both_ways_count_where_nobody_says_the_release() -> None:
    value = changed(("policy.dtensor_cfg.activation_checkpointing", True))
    assert read(value).readings == ()  # `automodel_kwargs` came with 0.6
    del value["policy"]["dtensor_cfg"]["automodel_kwargs"]
    (reading,) = read(value).readings
    assert dict(reading.changes)["checkpointing.by_parts"] is True
    assert read(value, versions={"nemo_rl": (0, 7)}).readings == ()


@pytest.mark.parametrize(
    ("nodes", "resources", "world"),
    [(1, {"gpus_per_node": 2, "num_nodes": None}, 6), (4, {"gpus_per_node": 8, "num_nodes": 1}, 24)],
)
def test_gpus_that_write_completions_alone_do_not_train(nodes: int, resources: dict[str, Any], world: int) -> None:
    value = changed(
        ("cluster.num_nodes", nodes), ("policy.generation.colocated", {"enabled": False, "resources": resources})
    )
    run = read(value)
    assert (run.parallelism.world_size, run.rollout.generator) == (world, "vllm")
    assert not run.rollout.offloads_weights and not run.rollout.offloads_optimizer


def test_experts_are_counted_as_a_bound() -> None:
    run = read(FILE, architecture=OF_EXPERTS)
    assert run.stack.unmodelled_adds and "experts" in run.stack.unmodelled


@pytest.mark.parametrize(
    ("section", "stage", "words"),
    [
        ("sft", "sft", ""),
        ("dpo", "dpo", ""),
        ("rm", "rm", ""),
        ("distillation", "sft", "teacher"),
        ("ppo", "grpo", "value"),
    ],
)
def test_what_trains_is_told_by_its_section(section: str, stage: str, words: str) -> None:
    value = {key: one for key, one in FILE.items() if key != "grpo"} | {section: {"max_num_steps": 1}}
    run = read(value)
    assert run.method.stage == stage and words in run.stack.unmodelled
    assert bool(run.stack.unmodelled) is bool(words)
    writes = section in ("distillation", "ppo")
    assert run.rollout.generator == ("vllm_colocate" if writes else "")


def test_sft_validates_in_micro_batches_of_its_own() -> None:
    value = {key: one for key, one in FILE.items() if key != "grpo"}
    run = read({**value, "sft": {"val_period": 10, "val_micro_batch_size": 2}})
    assert (run.evaluation.enabled, run.evaluation.batch_size) == (True, 2)
    assert read({**value, "sft": {"val_period": 0, "val_micro_batch_size": 2}}).evaluation.enabled is False


def test_megatron_gets_a_bound_of_its_fullest_stage() -> None:
    value = changed(
        *MEGATRON,
        ("policy.megatron_cfg.tensor_model_parallel_size", 2),
        ("policy.megatron_cfg.pipeline_model_parallel_size", 4),
        ("policy.megatron_cfg.activation_checkpointing", True),
        ("policy.megatron_cfg.optimizer", {"optimizer": "adam", "use_distributed_optimizer": True}),
    )
    run = read(value)
    assert (run.parallelism.engine, run.parallelism.data_parallel_size) == ("megatron", 2)
    assert (run.model.weights_dtype, run.precision.grad_dtype, run.checkpointing.mode) == (
        "bfloat16",
        "bfloat16",
        "full",
    )
    found = estimate(run)
    assert found.verdict == "unknown" and found.allocated_low_bytes
    aware = changed(*MEGATRON, ("policy.megatron_cfg.optimizer.use_precision_aware_optimizer", True))
    assert read(aware).optimizer.name is UNKNOWN and estimate(read(aware)).allocated_low_bytes
    uneven = changed(*MEGATRON, ("policy.megatron_cfg.num_layers_in_first_pipeline_stage", 3))
    assert "different numbers of layers" in read(uneven).stack.unmodelled


def test_without_an_engine_nothing_is_counted() -> None:
    found = estimate(read(changed(("policy.dtensor_cfg.enabled", False))))
    assert found.allocated_bytes is None and "FSDP1" in found.unknown[0].reason


INHERITED = {"base.yaml": FILE, "./base.yaml": FILE}


def test_a_file_lies_over_what_it_inherits() -> None:
    value = {"defaults": "base.yaml", "policy": {"train_micro_batch_size": 2, "sequence_packing": {"enabled": True}}}
    run = read(value, files=INHERITED)
    assert (run.batch.micro_batch_size, run.batch.max_tokens, run.sequence.length) == (2, 0, 2048)
    assert run.related and run.parallelism.world_size == 16


def test_null_and_a_section_that_overrides_take_the_place_of_what_is_inherited() -> None:
    value = {"defaults": ["base.yaml"], "policy": {"max_total_sequence_length": None}, "cluster": {"gpus_per_node": 1}}
    assert read(value, files=INHERITED).sequence.length is UNKNOWN
    value = {"defaults": "base.yaml", "cluster": {"_override_": True, "gpus_per_node": 4}}
    assert read(value, files=INHERITED).parallelism.world_size == 4


def test_what_a_file_that_is_not_there_says_is_not_known() -> None:
    run = read({"defaults": "../missing.yaml", "grpo": {}, "policy": {"model_name": "a/b"}})
    assert run.sequence.length is UNKNOWN and run.parallelism.world_size is UNKNOWN
    assert "`../missing.yaml`, a file that is not in the repository" in run.origins["parallelism.world_size"].detail


def test_files_that_inherit_from_each_other_end() -> None:
    files = {"./a.yaml": {**FILE, "defaults": "b.yaml"}, "./b.yaml": {"defaults": "a.yaml"}}
    assert read({**FILE, "defaults": "a.yaml"}, files=files).sequence.length == 2048
    value = changed(("policy.sequence_packing.enabled", True))
    value["policy"]["sequence_packing"]["train_mb_tokens"] = "${mul:${policy.sequence_packing.train_mb_tokens}, 2}"
    assert read(value).batch.micro_batch_size == 4


def of_command(command: str) -> list[Run]:
    files = {"/examples/configs/grpo_math_1B.yaml": json.dumps(FILE), "/examples/configs/sft.yaml": json.dumps(FILE)}
    workspace = in_memory({"/run.sh": f"MODEL=Qwen/Qwen3-4B\nNODES=4\n{command}\n", **files})
    return [run_of(nemo_rl.parse(one, workspace.context())) for one in workspace.documents("run.sh")]


GIVEN = "--config examples/configs/grpo_math_1B.yaml"


@pytest.mark.parametrize(
    "command",
    [
        f"uv run examples/run_grpo_math.py {GIVEN} policy.model_name=${{MODEL}} ++cluster.num_nodes=4",
        "uv run python examples/run_grpo.py cluster.num_nodes=$NODES policy.model_name=$MODEL",
        f'COMMAND="uv run ./examples/run_grpo.py {GIVEN} policy.model_name=$MODEL cluster.num_nodes=4" \\\n'
        "sbatch --nodes=4 ray.sub",
    ],
)
def test_overrides_of_a_command_lie_over_its_file(command: str) -> None:
    (run,) = of_command(command)
    assert (run.model.name, run.parallelism.world_size, run.method.stage) == ("Qwen/Qwen3-4B", 32, "grpo")
    assert run.batch.micro_batch_size == 4


def test_the_program_says_what_trains() -> None:
    (run,) = of_command("python examples/run_sft.py policy.train_micro_batch_size=1 cluster.gpus_per_node=2")
    assert (run.method.stage, run.batch.micro_batch_size, run.rollout.generator) == ("sft", 1, "")


@pytest.mark.parametrize("command", ["python run_sft.py --lr 1e-5 --config a.yaml", "python run_eval.py policy.x=1"])
def test_other_programs_are_not_its_own(command: str) -> None:
    found = [recognise(one) for one in in_memory({"/run.sh": command}).documents("run.sh")]
    assert all(one is None or one[0].NAME != "nemo_rl" for one in found)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("policy.megatron_cfg.enabled", True)], "both switched on"),
        ([("policy.dtensor_cfg.enabled", False)], "neither DTensor nor Megatron-LM"),
        ([("policy.dtensor_cfg.context_parallel_size", 3)], "16 GPUs are no multiple of the 3"),
        ([("policy.train_global_batch_size", 100)], "cannot be divided among 16 data-parallel ranks"),
        ([("policy.train_micro_batch_size", 3)], "no multiple of micro-batches of 3"),
        (
            [("policy.sequence_packing.enabled", True), ("policy.dynamic_batching.enabled", True)],
            "packing excludes dynamic batching",
        ),
        (
            [("policy.sequence_packing.enabled", True), ("policy.dtensor_cfg.context_parallel_size", 2)],
            "sequences that are packed cannot be shared",
        ),
        ([("policy.dtensor_cfg.tensor_parallel_size", 4)], "key-value heads cannot be divided among 4 GPUs"),
        (
            [("policy.dtensor_cfg.tensor_parallel_size", 4), ("policy.logprob_batch_size", 2)],
            "`logprob_batch_size: 2` must be `train_micro_batch_size: 4`",
        ),
        (
            [("policy.dtensor_cfg._v2", False), ("policy.dtensor_cfg.lora_cfg", {"enabled": True})],
            "LoRA needs `policy.dtensor_cfg._v2: true`",
        ),
        (
            [
                ("policy.dtensor_cfg.lora_cfg", {"enabled": True, "use_triton": True}),
                ("policy.dtensor_cfg.tensor_parallel_size", 2),
            ],
            "Triton's LoRA",
        ),
        (
            [
                ("policy.dtensor_cfg.context_parallel_size", 2),
                ("policy.dtensor_cfg.tensor_parallel_size", 2),
                ("policy.dtensor_cfg.sequence_parallel", True),
            ],
            "`sequence_parallel` does not go with",
        ),
        (
            [("policy.dtensor_cfg.cpu_offload", True), ("cluster", {"gpus_per_node": 1, "num_nodes": 1})],
            "`cpu_offload` does not work on a single GPU",
        ),
    ],
)
def test_what_it_refuses_at_the_start(pairs: list[tuple[str, Any]], words: str) -> None:
    issues = nemo_rl.parse(document(changed(*pairs)), known()).issues
    assert any(words in issue.message for issue in issues), [issue.message for issue in issues]


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [*MEGATRON, ("policy.megatron_cfg.context_parallel_size", 2), ("policy.sequence_packing.enabled", True)],
        [("policy.dtensor_cfg.tensor_parallel_size", 2), ("policy.logprob_batch_size", 2)],
        [("policy.dynamic_batching.enabled", True), ("policy.train_micro_batch_size", 3)],
        [("policy.dtensor_cfg._v2", False), ("policy.dtensor_cfg.cpu_offload", True)],
        [("policy.generation.colocated.enabled", "${oc.env:X}")],
    ],
)
def test_nothing_is_said_of_files_that_start(pairs: list[tuple[str, Any]]) -> None:
    assert codes(nemo_rl.parse(document(changed(*pairs)), known())) == []


def test_gpus_that_are_inherited_may_be_others_in_a_command() -> None:
    value = {"defaults": "base.yaml", "policy": {"train_global_batch_size": 100}}
    assert codes(nemo_rl.parse(document(value), known(files=INHERITED))) == []


def test_nothing_is_said_where_a_file_is_missing() -> None:
    value = {**changed(("policy.megatron_cfg.enabled", True)), "defaults": "../missing.yaml"}
    assert codes(nemo_rl.parse(document(value), known())) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 16},
        {"rollout.share": 0.5},
        {"rollout.tensor_parallel_size": 2},
        {"checkpointing.mode": "full"},
        {"parallelism.fsdp.cpu_offload": True},
        {"sequence.length": 1024},
        {"rollout.log_prob_micro_batch_size": 2},
    ],
)
def test_what_is_written_is_read_back(changes: dict[str, Any]) -> None:
    parsed = nemo_rl.parse(document(FILE), known())
    edits = nemo_rl.edits(parsed, run_of(parsed), changes)
    assert edits is not None
    again = read(applied(FILE, edits, "train.json"))
    assert {field: get(again, field) for field in changes} == changes


def test_the_section_of_vllm_is_not_written_for_sglang() -> None:
    value = changed(
        ("policy.generation.backend", "sglang"),
        ("policy.generation.sglang_cfg.sglang_server_config.mem_fraction_static", 0.5),
    )
    parsed = nemo_rl.parse(document(value), known())
    for changes in ({"rollout.share": 0.3}, {"rollout.tensor_parallel_size": 2}):
        assert nemo_rl.edits(parsed, run_of(parsed), changes) is None


def test_tokens_of_a_packed_micro_batch_are_written() -> None:
    value = changed(("policy.sequence_packing.enabled", True), ("policy.sequence_packing.train_mb_tokens", 5000))
    parsed = nemo_rl.parse(document(value), known())
    edits = nemo_rl.edits(parsed, run_of(parsed), {"batch.max_tokens": 3000, "batch.micro_batch_size": 1})
    assert read(applied(value, edits, "train.json")).batch.max_tokens == 3000
    assert nemo_rl.edits(parsed, run_of(parsed), {"batch.max_tokens": 1000}) is None


@pytest.mark.parametrize("changes", [{"loss.kind": "liger"}, {"batch.micro_batch_size": 3}, {"method.kind": "lora"}])
def test_no_key_no_edit(changes: dict[str, Any]) -> None:
    parsed = nemo_rl.parse(document(FILE), known())
    assert nemo_rl.edits(parsed, run_of(parsed), changes) is None


def test_wrong_types_are_reported() -> None:
    parsed = nemo_rl.parse(document(changed(("policy.train_micro_batch_size", [4]))), known())
    assert codes(parsed) == ["wrong-type"]


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_makes_parsing_raise(value: Any) -> None:
    nemo_rl.parse(document({"policy": value, "cluster": value, "defaults": value}), known())
    nemo_rl.parse(
        document({**FILE, "policy": {"dtensor_cfg": value, "megatron_cfg": value, "optimizer": value}}), known()
    )
    for name in ("policy.generation", "policy.dtensor_cfg.lora_cfg", "policy.hf_config_overrides", "sft", "loss_fn"):
        nemo_rl.parse(document(changed((name, value))), known())
    assert replace(read(FILE), {}) is not None
