"""AReaL's files and commands: recognition, what each key means (0.3.1 to 2.0.0), figures and bounds, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures.model import parameters
from memlint.formats.areal import format as areal
from memlint.formats.areal.allocation import EngineGpus, allocations
from memlint.formats.areal.behaviour import ALWAYS, FSDP, LOSS, MEGATRON
from memlint.formats.areal.keys import KEYS
from memlint.formats.areal.recognise import recognise
from memlint.memory.estimate import estimate
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.run import UNKNOWN, get
from tests.formats.frameworks import ANYTHING, document, run_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "areal" / "grpo_7b.yaml"
GRPO = EXAMPLE.read_text(encoding="utf-8")
NAMES = {"experiment_name": "e", "trial_name": "t"}
TIMED = {name: {**NAMES, "fileroot": "/a"} for name in ("saver", "recover", "evaluator", "stats_logger")}
# As files of 0.3.4 to 1.0.2 are: one text for all engines.
OLDER: dict[str, Any] = {
    **NAMES,
    **TIMED,
    "allocation_mode": "sglang:d4+d4",
    "cluster": {"n_nodes": 1, "n_gpus_per_node": 8},
    "gconfig": {"n_samples": 4, "max_new_tokens": 1024},
    "rollout": {"max_concurrent_rollouts": 64},
    "actor": {
        **NAMES,
        "path": "Qwen/Qwen2.5-1.5B-Instruct",
        "gradient_checkpointing": True,
        "mb_spec": {"max_tokens_per_mb": 10240},
        "optimizer": {"type": "adam", "lr": 1e-5},
        "kl_ctl": 0.0,
        "ppo_n_minibatches": 1,
    },
    "train_dataset": {"path": "openai/gsm8k", "type": "rl", "batch_size": 256, "max_length": 1024},
    "launcher": {"trainer_cpus_per_gpu": 4},
}
SFT: dict[str, Any] = {
    **NAMES,
    **TIMED,
    "allocation_mode": "d8",
    "cluster": {"n_nodes": 1, "n_gpus_per_node": 8},
    "model": {
        **NAMES,
        "path": "Qwen/Qwen3-1.7B",
        "gradient_checkpointing": True,
        "mb_spec": {"max_tokens_per_mb": 4096},
        "optimizer": {"type": "adam"},
    },
    "train_dataset": {"path": "a", "type": "sft", "batch_size": 128, "max_length": 2048},
}


def changed(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The file with dotted keys set (`__` for a dot); ... takes a key away."""
    found: dict[str, Any] = yaml.safe_load(yaml.safe_dump(base))
    for name, value in changes.items():
        *above, key = name.split("__")
        section = found
        for step in above:
            section = section.setdefault(step, {})
        if value is ...:
            section.pop(key)
        else:
            section[key] = value
    return found


def analysed(value: Any, files: dict[str, str] | None = None, **versions: tuple[int, ...]) -> Any:
    text = value if isinstance(value, str) else yaml.safe_dump(value)
    workspace = in_memory({"config.yaml": text, **(files or {})})
    (found,) = workspace.documents("config.yaml")
    return analyse(found, workspace.context(versions=versions), ())


def launched(command: str, value: Any = OLDER, files: dict[str, str] | None = None) -> Any:
    text = value if isinstance(value, str) else yaml.safe_dump(value)
    workspace = in_memory({"config.yaml": text, "run.sh": f"{command}\n", **(files or {})})
    (found,) = workspace.documents("run.sh")
    assert found.start is not None and found.start.format == "areal"
    return analyse(found, workspace.context(), ())


def errors(found: Any) -> list[str]:
    return [one.message for one in found.findings if one.severity == "error"]


def own(**changes: Any) -> dict[str, Any]:
    """A file of 1.0.3 and later: the example with changes."""
    return changed(yaml.safe_load(GRPO), **changes)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("sglang:d4+fsdp:d4", ((4, "sglang"), (4, "fsdp"))),
        ("sglang.d4p1t1+d4p1t1", ((4, "sglang"), (4, "fsdp"))),
        ("vllm:d2t2 + d1p2t2", ((4, "vllm"), (4, "megatron"))),
        ("sglang[rollout]:d2+fsdp[actor]:d4|fsdp[critic]:d4", ((2, "sglang"), (4, "fsdp"), (4, "fsdp"))),
        ("megatron:(attn:d1p4t2c2|ffn:d1p4t1e4)", ((16, "megatron"),)),
        ("d4c2", ((8, "fsdp"),)),
        ("sglang:d4+eval", ((4, "sglang"),)),
        ("archon:(attn:d4|ffn:e2)", ((4, "archon"),)),
        ("megatron:(attn:d1p2t2|ffn:d1p4e1)", None),
        ("megatron:(attn:d1p1t3|ffn:e2)", None),
        ("megatron:(attn:d4|ffn:d4e2)", None),
        ("sglang:d4c2+d4", None),
        ("sglang.d4p1m1+d2p2m1", None),
        ("", None),
        ("fsdp:d0", None),
        ("d4+", None),
    ],
)
def test_an_allocation_is_read_as_areals_grammar_does(text: str, found: Any) -> None:
    read = allocations(text)
    assert found == (None if read is None else tuple((one.world, one.engine) for one in read))


def test_experts_have_sizes_of_their_own_in_an_allocation() -> None:
    (found,) = allocations("megatron:(attn:d1p4t2c2|ffn:d1p4t2e2)") or ()
    assert found == EngineGpus("megatron", "", 1, 2, 4, 2, 2, 2)


@pytest.mark.parametrize("value", [OLDER, SFT, yaml.safe_load(GRPO)])
def test_files_are_recognised(value: dict[str, Any]) -> None:
    assert recognise(document(value)).confidence == "certain"


@pytest.mark.parametrize(
    "value",
    [
        {"actor": {"type": {"_class": "qwen3"}, "path": "a"}, "allocation_mode": "sglang:d4+d4"} | {"cluster": {}},
        changed(OLDER, actor=..., allocation_mode="sglang:d4"),
        {"actor": {"path": "a"}, "rollout": {}, "trainer": {}},
        {"model": {"path": "a"}, "train_dataset": {}, "saver": {}, "cluster": {}},
    ],
)
def test_other_files_are_not(value: dict[str, Any]) -> None:
    assert recognise(document(value)).confidence == "no"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m areal.launcher.local train.py --config config.yaml trial_name=x",
        "python -m areal.infra.launcher.slurm train.py --config config.yaml trial_name=x",
        "python train.py --config config.yaml scheduler.type=ray actor.path=Qwen/Qwen2.5-1.5B-Instruct",
    ],
)
def test_launches_are_read_over_their_file(command: str) -> None:
    run = run_of(launched(command))
    assert (run.stack.framework, run.parallelism.world_size, run.batch.max_tokens) == ("areal", 4, 10240)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m areal.launcher.local eval.py --config config.yaml trial_name=x",
        "python train.py --config config.yaml",
        "python train.py --config config.yaml actor.path=a",
    ],
)
def test_other_commands_are_not(command: str) -> None:
    found = in_memory({"run.sh": f"{command}\n"}).documents("run.sh")
    assert all(one.start is None or one.start.format != "areal" for one in found)


def test_a_program_that_imports_areal_reads_its_file() -> None:
    program = "from areal.api.cli_args import GRPOConfig, load_expr_config\n"
    run = run_of(launched("python train.py --config config.yaml trial_name=x", files={"train.py": program}))
    assert run.stack.framework == "areal"


def test_overrides_come_before_the_file() -> None:
    command = "python3 -m areal.launcher.local train.py --config config.yaml allocation_mode=sglang:d2+d2c2"
    run = run_of(launched(f"{command} actor.mb_spec.max_tokens_per_mb=16384 actor.gradient_checkpointing=false"))
    assert (run.parallelism.world_size, run.parallelism.sequence_parallel_size) == (4, 2)
    assert (run.batch.max_tokens, run.checkpointing.mode) == (16384, "none")


def test_a_file_that_is_not_there_leaves_its_keys_open() -> None:
    run = run_of(launched("python3 -m areal.launcher.local train.py --config other.yaml trial_name=x"))
    assert (run.model.name, run.batch.max_tokens, run.parallelism.world_size) == (UNKNOWN, UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {"parallelism.world_size": 4, "parallelism.data_parallel_size": 4, "parallelism.gpus_per_node": 4}),
        ({}, {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16", "precision.autocast": False}),
        ({}, {"batch.max_tokens": 10240, "batch.micro_batch_size": 5, "sequence.length": 2048}),
        ({}, {"method.stage": "grpo", "method.num_generations": 4, "method.reference_model": "none"}),
        ({}, {"rollout.generator": "vllm", "rollout.log_prob_micro_batch_size": 0}),
        ({}, {"parallelism.fsdp.loads_whole": True, "parallelism.fsdp.reduces_each_backward": True}),
        ({"actor__mb_spec__max_tokens_per_mb": 10000}, {"batch.max_tokens": 10240}),
        ({"actor__pad_to_maximum": True, "actor__mb_spec__max_tokens_per_mb": 10000}, {"batch.max_tokens": 10000}),
        # Without a bound a rank's 256 * 4 / 4 sequences are one forward, or as many as the parts that are asked for.
        ({"actor__mb_spec": {"n_mbs": 8}}, {"batch.max_tokens": 0, "batch.micro_batch_size": 32}),
        (
            {"actor__recompute_logprob": True},
            {"rollout.log_prob_micro_batch_size": 1, "rollout.log_prob_length": 10240},
        ),
        ({"actor__use_decoupled_loss": True}, {"rollout.log_prob_micro_batch_size": 1}),
        (
            {
                "actor__kl_ctl": 0.1,
                "ref": {"path": "Qwen/Qwen2.5-1.5B-Instruct", "mb_spec": {"max_tokens_per_mb": 4096}},
            },
            {"method.reference_model": "copy", "rollout.reference_length": 4096, "rollout.offloads_reference": False},
        ),
        ({"actor__kl_ctl": 0.1}, {"method.reference_model": "none"}),
        ({"actor__gradient_checkpointing": False}, {"checkpointing.mode": "none"}),
        ({"actor__dtype": "float32"}, {"model.weights_dtype": "float32", "precision.compute": "float32"}),
        ({"actor__fsdp": {"offload_params": True}}, {"parallelism.fsdp.cpu_offload": True}),
        ({"actor__optimizer__type": "sgd"}, {"optimizer.name": "sgd"}),
        ({"actor__optimizer": None}, {"optimizer.name": UNKNOWN}),
        ({"actor__use_lora": True, "actor__lora_rank": 8}, {"method.kind": "lora", "method.rank": 8}),
        ({"actor__use_lora": True}, {"method.targets": ("all-linear",), "method.adapter_dtype": "bfloat16"}),
        ({"allocation_mode": "sglang:d4+d2c2"}, {"parallelism.sequence_parallel_size": 2}),
        (
            {"allocation_mode": "sglang:d4+megatron:d1p2t2"},
            {"parallelism.engine": "megatron", "parallelism.pipeline_parallel_size": 2},
        ),
        ({"allocation_mode": "sglang:d4+fsdp:d2t2"}, {"stack.unmodelled_adds": True}),
        ({"allocation_mode": "sglang:d4+megatron:d4"}, {"precision.grad_dtype": "float32"}),
        ({"allocation_mode": "$MODE"}, {"parallelism.world_size": UNKNOWN}),
        ({"gconfig__max_new_tokens": "${oc.env:LENGTH}"}, {"sequence.length": UNKNOWN}),
        ({"critic": {"path": "Qwen/Qwen2.5-1.5B-Instruct"}}, {"method.stage": "ppo"}),
        (
            {"allocation_mode": "sglang[r]:d4|fsdp[actor]:d4", "enable_offload": True, "launcher": ...},
            {"rollout.generator": "vllm_colocate", "rollout.sleep_level": 1, "rollout.share": 0.9},
        ),
    ],
)
def test_what_a_key_means(changes: dict[str, Any], fields: dict[str, Any]) -> None:
    run = run_of(analysed(changed(OLDER, **changes)))
    assert {field: get(run, field) for field in fields} == fields


def test_supervised_training_has_a_section_of_its_own_in_older_files() -> None:
    run = run_of(analysed(SFT))
    assert (run.method.stage, run.parallelism.world_size, run.rollout.generator) == ("sft", 8, "")
    assert (run.batch.max_tokens, run.sequence.length, run.model.name) == (4096, 2048, "Qwen/Qwen3-1.7B")
    assert run.loss.selection == "compiled_chunks"


@pytest.mark.parametrize(
    ("versions", "dtype", "optimizer"),
    [
        ({"areal": (0, 4, 1)}, "bfloat16", "adamw_torch"),
        ({"areal": (1, 0, 4)}, "bfloat16", "adamw_torch_fused"),
        ({"areal": (2, 0, 0)}, "float32", "adamw_torch_fused"),
    ],
)
def test_releases_differ_in_dtypes_and_kernels(versions: dict[str, Any], dtype: str, optimizer: str) -> None:
    run = run_of(analysed(own(actor__optimizer_dtype=...), **versions))
    assert (run.model.weights_dtype, run.optimizer.name) == (dtype, optimizer)


def test_of_a_file_for_several_releases_there_are_two_readings() -> None:
    run = run_of(analysed(own(actor__optimizer_dtype=...)))
    (reading,) = run.readings
    assert ("model.weights_dtype", "bfloat16") in reading.changes
    assert not run_of(analysed(GRPO)).readings  # which says the dtype
    assert not run_of(analysed(OLDER)).readings  # whose keys are gone


def test_a_gpu_has_the_states_and_three_times_the_logits() -> None:
    """8 bytes of a quarter of the parameters; the logits, their gradient, and a chunk's padded to all."""
    found = estimate(run_of(analysed(OLDER)))
    assert found.allocated_bytes is not None and found.unknown == ()
    run = run_of(analysed(OLDER))
    quarter = parameters(run.model.architecture) // 4
    logits = 2 * 10240 * 151936
    backward = next(one for one in found.phases if one.name == "backward")
    assert backward.components["logits"] == pytest.approx(3 * logits, rel=0.12)
    assert found.details["optimizer_state_bytes"] == pytest.approx(4 * quarter, rel=1e-3)
    assert found.details["weights_bytes"] == pytest.approx(2 * quarter, rel=0.01)


@pytest.mark.parametrize(
    ("mode", "adds"),
    [("sglang:d4+fsdp:d2t2", True), ("sglang:d4+archon:d4", True), ("sglang:d4+archon:d2p2", False)],
)
def test_what_is_not_modelled_has_a_bound_where_it_only_adds(mode: str, adds: bool) -> None:
    found = estimate(run_of(analysed(changed(OLDER, allocation_mode=mode, launcher=...))))
    assert found.allocated_bytes is None and found.unknown
    assert (found.allocated_low_bytes is not None) == adds


def test_megatron_has_a_bound_of_its_fullest_stage() -> None:
    found = estimate(run_of(analysed(changed(OLDER, allocation_mode="sglang:d4+megatron:d2p2"))))
    assert found.allocated_bytes is None and found.allocated_low_bytes
    assert "the fullest of 2 stages" in found.unknown[0].reason


def test_a_plan_writes_the_bound_of_a_micro_batch_and_recomputation() -> None:
    found = analysed(changed(OLDER, actor__gradient_checkpointing=False))
    run = run_of(found)
    edits = areal.edits(found.parsed, run, {"batch.max_tokens": 4096, "checkpointing.mode": "full"})
    assert edits is not None
    written = {one.pointer: one.value for one in edits}
    assert written == {("actor", "mb_spec", "max_tokens_per_mb"): 4096, ("actor", "gradient_checkpointing"): True}
    assert areal.edits(found.parsed, run, {"batch.max_tokens": 1024}) is None  # a sequence would not fit
    older = analysed(SFT)
    edits = areal.edits(older.parsed, run_of(older), {"batch.max_tokens": 2048})
    assert edits is not None and edits[0].pointer == ("model", "mb_spec", "max_tokens_per_mb")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actor__mb_spec__packing_algorithm": "best"}, "none of ffd, kk"),
        ({"actor__optimizer__type": "lion"}, "none of adam, sgd, adam_bf16"),
        ({"actor__optimizer__lr_scheduler_type": "step"}, "none of linear"),
        ({"actor__reward_norm": {"mean_level": "token"}}, "none of batch, group"),
        ({"recover": {"mode": "fault"}}, "none of on, off, auto, disabled"),
        ({"saver": {"mode": "later"}}, "none of auto, sync, async"),
        ({"total_train_epochs": 0}, "above 0"),
        ({"actor__backend": "fsdp:d2p2"}, "data, tensor and context"),
        ({"actor__backend": "fsdp:d4+fsdp:d4"}, "no allocation"),
        ({"actor__backend": "ddp:d4"}, "no allocation"),
        ({"rollout__backend": "trt:d4"}, "no allocation"),
        ({"actor__backend": "sglang:d4"}, "trains nothing"),
        ({"actor__archon": {"moe_router_dtype": "fp16"}}, "none of fp32"),
        ({"actor__backend": "megatron:d2e4"}, "no multiple of the 4"),
        ({"actor__fsdp": {"memory_efficient_load": True}, "actor__init_from_scratch": True}, "has none to load"),
        ({"actor__use_sapo_loss": True, "actor__use_decoupled_loss": True}, "SAPO excludes"),
        ({"actor__use_sapo_loss": True, "actor__sapo_tau_pos": 0}, "above 0"),
        ({"actor__rejection_sampling": {"upper": 0.5}}, "above 1"),
        ({"actor__rejection_sampling": {"lower": 6.0}}, "above `upper`"),
        ({"actor__rejection_sampling": {"action": "clamp", "metric": "kl_k1"}}, "`ratio` alone"),
        ({"rollout__scheduling_strategy": {"type": "colocation", "target": "actor"}}, "enable_offload"),
        ({"actor__offload": True}, "enable_offload"),
        (
            {"rollout__scheduling_strategy": {"type": "colocation", "target": "actor"}, "enable_offload": True},
            "from disk",
        ),
        ({"rollout__backend": "vllm:d4", "rollout__return_routed_experts": True}, "returns no experts"),
        ({"actor__backend": "megatron:d4", "actor__use_lora": True}, "need vLLM"),
        ({"actor__backend": "fsdp:d1t8"}, "cannot be divided"),
        ({"actor__dtype": "bf16"}, "no dtype"),
        ({"actor__rejection_sampling": {"level": "group"}}, "none of token, sequence"),
        ({"actor__attn_impl": "flash"}, "no attention of"),
        ({"actor__backend": "fsdp:d2c2", "actor__enable_tree_training": True}, "exclude GPUs that share"),
        ({"actor__is_critic": True, "actor__enable_tree_training": True}, "one output for each token"),
        ({"actor__fsdp": {"per_layer_optim_step": True}, "actor__optimizer__type": "sgd"}, "`adam` alone"),
        ({"actor__use_lora": True, "actor__peft_type": "dora"}, "only adapter"),
        ({"actor__path": "Qwen/Qwen2.5-VL-3B-Instruct", "actor__dtype": "float16"}, "no float16"),
        ({"actor__path": "Qwen/Qwen2.5-VL-3B-Instruct", "actor__init_from_scratch": True}, "needs its weights"),
        ({"actor__weight_update_mode": "nccl"}, "`disk` or `xccl`"),
        ({"actor__scheduling_spec": [{}, {}, {}]}, "one or two specifications"),
        ({"actor__archon": {"fp8_config": {"mode": "blockwise", "use_triton": False}}}, "Triton"),
        ({"actor__reward_norm": {"mean_level": "group", "group_size": 0}}, "1 or more"),
        ({"stats_logger__trackio": {"mode": "later"}}, "none of disabled"),
        ({"actor__kl_ctl": None}, "kl_ctl"),
        ({"actor__ppo_n_minibatches": "few"}, "no whole number"),
    ],
)
def test_what_areal_refuses_is_an_error(changes: dict[str, Any], message: str) -> None:
    assert any(message in one for one in errors(analysed(own(**changes))))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trial_name": 3},
        {"actor__gradient_checkpointing": "yes"},
        {"actor__init_from_scratch": "off"},
        {"actor__attn_impl": "kernels-community/flash-attn@main:entry"},
        {"actor__use_lora": True},
        {"actor__scheduling_spec": [{"gpu": 1}]},
        {"actor__path": "Qwen/Qwen2.5-VL-3B-Instruct"},
        {"actor__optimizer": None},
        {"actor__adv_norm": {"mean_level": None, "std_level": "batch"}},
        {"actor__backend": "megatron:d2p2", "actor__optimizer__type": "adam_bf16"},
        {"actor__backend": "fsdp:d2t2"},
        {"actor__mb_spec__max_tokens_per_mb": "${gconfig.max_tokens}"},
        {"actor__rejection_sampling": {"metric": "ratio", "upper": 5.0}},
        {"own_section": {"turns": 3}},
        {"gconfig__temperature": "???"},
        {"rollout__scheduling_strategy": {"type": "colocation", "target": "actor"}}
        | {"enable_offload": True, "actor__weight_update_mode": "disk"},
    ],
)
def test_what_areal_takes_is_none(changes: dict[str, Any]) -> None:
    assert errors(analysed(own(**changes))) == []


@pytest.mark.parametrize("mode", ["sglang:d4+d4+d4", "sglang[a]:d4+fsdp[b]:d4|fsdp[c]:d2", "sglang[a]:d4+fsdp[a]:d4"])
def test_an_allocation_of_all_engines_is_checked(mode: str) -> None:
    assert errors(analysed(changed(OLDER, allocation_mode=mode)))


def test_a_launcher_takes_no_adapters() -> None:
    value = own(actor__use_lora=True)
    assert any("need a scheduler" in one for one in errors(launched(f"{LAUNCHER} trial_name=x", value)))
    command = "python train.py --config config.yaml scheduler.type=local"
    assert errors(launched(command, value, {"train.py": PROGRAM})) == []


def test_values_without_a_default_are_missed() -> None:
    command = "python3 -m areal.launcher.local train.py --config config.yaml"
    assert errors(launched(f"{command} trial_name=x")) == []
    assert any("`saver.fileroot` has" in one for one in errors(launched(command, changed(OLDER, saver__fileroot=...))))
    alone = analysed(changed(OLDER, saver__fileroot=..., actor__trial_name=...)).findings
    assert [(one.rule, one.severity) for one in alone if one.rule == "CFG004"] == [("CFG004", "warning")]


def test_a_release_that_asks_for_a_backend_misses_one() -> None:
    found = analysed(changed(OLDER, launcher=...), areal=(1, 0, 4)).findings
    assert any("`actor.backend`, `rollout.backend` have no value" in one.message for one in found)
    assert not analysed(changed(OLDER, launcher=...), areal=(1, 0, 2)).findings
    assert any("names no engine" in one for one in errors(analysed(own(actor__backend="d4"), areal=(1, 0, 4))))


def test_a_key_of_another_class_is_an_error_of_the_command() -> None:
    value = changed(SFT, model__kl_ctl=0.1)
    command = "python train.py --config config.yaml"
    assert any("`model.kl_ctl`" in one for one in errors(launched(command, value, {"train.py": PROGRAM})))
    older = own(launcher={"trainer_cpus_per_gpu": 4})
    assert any("takes `launcher`" in one for one in errors(launched(command, older, {"train.py": PROGRAM})))


PROGRAM = "from areal.api.cli_args import GRPOConfig, load_expr_config\nload_expr_config([], GRPOConfig)\n"
LAUNCHER = "python3 -m areal.launcher.local train.py --config config.yaml"
OWN_CLASS = "@dataclass\nclass Own(GRPOConfig):\n    turns: int = 3\n"


def test_an_unknown_key_is_an_error_of_the_command_whose_program_is_here() -> None:
    value, command = own(actor__gradient_checkpoint=True), "python train.py --config config.yaml"
    assert any("`actor.gradient_checkpoint`" in one for one in errors(launched(command, value, {"train.py": PROGRAM})))
    alone = analysed(value)
    assert errors(alone) == [] and any(one.rule == "CFG001" and one.where for one in alone.findings)


def test_an_unknown_override_is_an_error_unless_it_is_added() -> None:
    command = "python train.py --config config.yaml"
    files = {"train.py": PROGRAM}
    assert errors(launched(f"{command} actor.turns=3", files=files))
    assert errors(launched(f"{command} +actor.turns=3", files=files)) == []


def test_a_key_that_the_repository_declares_is_known() -> None:
    value, files = own(actor__turns=3), {"train.py": PROGRAM + OWN_CLASS}
    assert not any(one.rule == "CFG001" for one in analysed(value, files).findings)
    assert errors(launched("python train.py --config config.yaml", value, files)) == []


def test_keys_that_no_release_takes_together_are_named() -> None:
    found = analysed(own(actor__behav_imp_weight_cap=5.0))
    (one,) = (item for item in found.findings if item.rule == "CFG016")
    assert "no release of AReaL takes `actor.behav_imp_weight_cap`" in one.message and one.severity == "warning"


def test_the_table_names_what_the_code_does() -> None:
    named = {one.field for one in (*ALWAYS, *FSDP, *LOSS, *MEGATRON)}
    assert not named & {row.field for row in KEYS if row.is_read_here and row.default is not None and not row.read}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(OLDER)), ANYTHING, max_size=6))
def test_any_values_are_read_without_an_error(values: dict[str, Any]) -> None:
    areal.parse(document({**OLDER, **values}), in_memory({"train.json": "{}"}).context())


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="sglanvmtorchfdp:.+|[]()0123456789 e", max_size=30))
def test_any_allocation_is_read_without_an_error(text: str) -> None:
    found = allocations(text)
    assert found is None or all(one.world >= 1 for one in found)
