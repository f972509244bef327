"""accelerate launch files: recognition, what joins a training config, what accelerate 1.15 refuses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.accelerate import format as accelerate
from memlint.formats.accelerate.keys import KEYS
from memlint.formats.accelerate.parallel import plugin_config
from memlint.formats.fields import root
from memlint.formats.section_keys import SectionKeys
from memlint.formats.trainer import format as trainer
from memlint.repository.workspace import in_memory
from memlint.run import UNKNOWN, get
from tests.formats.frameworks import ANYTHING, codes, context, document, run_of

TRAIN = {
    "model_name_or_path": "some/model",
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-4,
    "torch_dtype": "bfloat16",
    "bf16": True,
}
LAUNCH = {"compute_environment": "LOCAL_MACHINE", "num_machines": 1, "num_processes": 8, "mixed_precision": "bf16"}


def joined(launch: dict[str, Any], training: dict[str, Any] = TRAIN, **fields: Any) -> Any:
    companion = document({**LAUNCH, **launch}, "accelerate.json")
    return trainer.parse(document(training), context(companions=(companion,), **fields))


@pytest.mark.parametrize(
    ("value", "confidence"),
    [
        ({**LAUNCH, "distributed_type": "MULTI_GPU"}, "certain"),
        ({"distributed_type": "FSDP", "fsdp_config": {}}, "certain"),
        (TRAIN, "no"),
        ({"distributed_type": "NO", **TRAIN}, "no"),
        ({"num_processes": 4}, "no"),
        ([], "no"),
    ],
)
def test_recognised_by_keys(value: Any, confidence: str) -> None:
    recognition = accelerate.recognise(document(value, "x.json"))
    assert recognition.confidence == confidence
    assert recognition.role == "companion" or confidence == "no"


@pytest.mark.parametrize(
    ("launch", "fields"),
    [
        ({"distributed_type": "MULTI_GPU"}, {"parallelism.engine": "ddp", "parallelism.world_size": 8}),
        ({"distributed_type": "NO", "num_processes": 1}, {"parallelism.engine": "single"}),
        ({"distributed_type": False, "num_processes": 1}, {"parallelism.engine": "single"}),  # YAML reads NO so
        ({"distributed_type": "MULTI_GPU", "num_machines": 2}, {"parallelism.gpus_per_node": 4}),
        (
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3, "offload_optimizer_device": "cpu"}},
            {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3, "offload.optimizer": "cpu"},
        ),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {}}, {"parallelism.zero.stage": 2}),
        (
            {"distributed_type": "DEEPSPEED", "parallelism_config": {"parallelism_config_sp_size": 4}},
            {"parallelism.sequence_parallel_size": 4, "parallelism.data_parallel_size": 2},
        ),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": 2, "fsdp_offload_params": True}},
            {
                "parallelism.fsdp.version": 1,
                "parallelism.fsdp.strategy": "SHARD_GRAD_OP",
                "parallelism.fsdp.cpu_offload": True,
            },
        ),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2, "fsdp_reshard_after_forward": False}},
            {"parallelism.fsdp.version": 2, "parallelism.fsdp.reshard_after_forward": False},
        ),
        (  # accelerator.py:1674: FSDP2 has a mixed precision policy and converts no outputs
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}},
            {
                "precision.compute": "bfloat16",
                "precision.outputs_to_fp32": False,
                "parallelism.fsdp.param_dtype": "bfloat16",
            },
        ),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 1}},
            {"precision.autocast": True, "parallelism.fsdp.upcasts_trainable": True},
        ),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_activation_checkpointing": True}},
            {"checkpointing.mode": "full", "checkpointing.reentrant": False},
        ),
        (
            {"distributed_type": "MEGATRON_LM", "megatron_lm_config": {"megatron_lm_tp_degree": 4}},
            {
                "parallelism.engine": "megatron",
                "parallelism.tensor_parallel_size": 4,
                "parallelism.data_parallel_size": 2,
            },
        ),
    ],
)
def test_joined_with_a_training_config(launch: dict[str, Any], fields: dict[str, object]) -> None:
    run = run_of(joined(launch))
    assert {name: get(run, name) for name in fields} == fields
    assert run.related == ("accelerate.json",)


def test_the_command_line_outranks_the_launch_file() -> None:
    assert run_of(joined({"distributed_type": "MULTI_GPU"}, gpus=2)).parallelism.world_size == 2


def test_mixed_precision_of_the_launcher_counts_where_the_file_has_none() -> None:
    training = {key: value for key, value in TRAIN.items() if key != "bf16"}
    assert run_of(joined({"distributed_type": "MULTI_GPU"}, training)).precision.compute == "bfloat16"
    said = run_of(joined({"distributed_type": "MULTI_GPU"}, {**training, "fp16": True}))
    assert said.precision.compute == "float16"


def test_mixed_precision_among_the_deepspeed_keys_is_heard_first() -> None:
    training = {key: value for key, value in TRAIN.items() if key != "bf16"}
    inner = {"zero_stage": 2, "mixed_precision": "fp16"}
    parsed = joined({"distributed_type": "DEEPSPEED", "mixed_precision": "bf16", "deepspeed_config": inner}, training)
    assert run_of(parsed).precision.compute == "float16"
    assert codes(parsed) == []


def test_what_the_plugin_s_configuration_ignores_is_said_at_accelerate_s_key() -> None:
    inner = {"zero_stage": 2, "offload_param_device": "cpu"}
    (issue,) = joined({"distributed_type": "DEEPSPEED", "deepspeed_config": inner}).issues
    assert issue.pointer == ("deepspeed_config", "offload_param_device")
    assert issue.message.startswith("`offload_param_device` needs ZeRO stage 3")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"timeout": 9}, "unknown key `timeout`: accelerate drops it"),
        ({"timeout": 9, "overlap_comm": True}, "unknown keys `timeout` and `overlap_comm`: accelerate drops them; *"),
    ],
)
def test_what_becomes_of_keys_that_accelerate_does_not_know_is_said(keys: dict[str, Any], words: str) -> None:
    (issue,) = joined({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, **keys}}).issues
    assert fnmatchcase(issue.message, words)


def test_the_deepspeed_file_behind_the_launch_file() -> None:
    launch = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds.json"}}
    parsed = joined(launch, files={"ds.json": {"zero_optimization": {"stage": 1}}})
    assert run_of(parsed).parallelism.zero.stage == 1
    assert parsed.raw_places["deepspeed"] == ("ds.json", ())
    missing = joined(launch)
    assert codes(missing) == ["conflict", "missing-reference"]  # and `mixed_precision` beside the file
    assert run_of(missing).parallelism.zero.stage is UNKNOWN


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"distributed_type": "MULTI_GPU", "num_proceses": 2}, ["unknown-key"]),
        ({"distributed_type": "MULTIGPU"}, ["bad-value"]),
        ({"num_processes": 2, "num_machines": 1}, ["missing-key"]),
        ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "ALL"}}, ["bad-value"]),
        ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2, "fsdp_sharding_strategy": "ALL"}}, []),
        ({"distributed_type": "MULTI_GPU", "fsdp_config": {"fsdp_sharding_strategy": "ALL"}}, []),
        ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategie": 1}}, ["unknown-key"]),
        (
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "d.json", "zero_stage": 3}},
            ["conflict", "missing-reference"],
        ),
        (
            {
                "distributed_type": "DEEPSPEED",
                "deepspeed_config": {"deepspeed_config_file": "d.json", "mixed_precision": "bf16"},
            },
            ["conflict", "missing-reference"],
        ),
        ({"distributed_type": "MULTI_GPU", "deepspeed_config": {"deepspeed_config_file": "d", "zero_stage": 3}}, []),
        ({"distributed_type": "FSDP", "fsdp_config": {"mixed_precision": "bf16"}}, ["unknown-key"]),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_backward_prefetch_policy": "NO_PREFETCH"}},
            ["renamed-key"],
        ),
        ({"distributed_type": "MULTI_GPU", "main_process_port": "29500", "gpu_ids": None}, ["wrong-type"]),
        ({"distributed_type": "MULTI_GPU", "main_process_port": 29500, "num_machines": "1"}, ["wrong-type"]),
        ({"distributed_type": "FSDP", "fsdp_config": {"fsdp_transformer_cls_names_to_wrap": "X"}}, ["unknown-key"]),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"transformer_layer_cls_to_wrap": "LlamaDecoderLayers"}},
            ["bad-value"],
        ),
        ({"distributed_type": "FSDP", "fsdp_config": {"transformer_layer_cls_to_wrap": "NewestDecoderLayer"}}, []),
        (
            {"distributed_type": "FSDP", "fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}},
            ["wrong-type"],
        ),
        ({"distributed_type": "NO", "ipex_config": {"use_xpu": True}}, ["removed-key"]),
        ({"distributed_type": "FSDP", "kt_config": {"enabled": True}}, ["removed-key"]),
        ({"distributed_type": "TP"}, ["removed-value"]),
        ({"distributed_type": "${KIND}", "mixed_precision": "${HALF}"}, []),
        ({"distributed_type": "MULTI_GPU", "num_processes": 2, "deepspeed_config": "z2.json"}, []),  # not read
        ({"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": "z2.json"}, ["wrong-type"]),
    ],
)
def test_what_accelerate_refuses(value: dict[str, Any], found: list[str]) -> None:
    parsed = accelerate.parse(document(value, "launch.json"), context())
    assert codes(parsed) == found
    assert [run.purpose for run in parsed.runs] == ["partial"]


@pytest.mark.parametrize(
    ("versions", "severity"), [({}, "info"), ({"accelerate": (1, 15)}, "warning"), ({"accelerate": (1, 12)}, "")]
)
def test_a_key_that_newer_releases_dropped(versions: dict[str, tuple[int, ...]], severity: str) -> None:
    launch = document({"distributed_type": "NO", "ipex_config": {}}, "launch.json")
    issues = accelerate.parse(launch, context(versions=versions)).issues
    assert [issue.severity for issue in issues] == ([severity] if severity else [])


def test_plugin_config_is_what_the_plugin_builds() -> None:
    inline = {"zero_stage": 3, "gradient_clipping": 0.5, "gradient_accumulation_steps": 2}
    made = plugin_config(SectionKeys(root(document({"deepspeed_config": inline})), KEYS, ""))
    assert made["zero_optimization"]["stage"] == 3
    assert (made["gradient_accumulation_steps"], made["gradient_clipping"]) == (2, 0.5)


_KEYS = ["distributed_type", "num_processes", "mixed_precision", "fsdp_config", "deepspeed_config", "fp8_config"]
_INNER = ["zero_stage", "deepspeed_config_file", "fsdp_version", "fsdp_sharding_strategy", "fsdp_auto_wrap_policy"]


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(_KEYS), ANYTHING | st.dictionaries(st.sampled_from(_INNER), ANYTHING)),
    st.sampled_from(["FSDP", "DEEPSPEED", "MULTI_GPU", "MEGATRON_LM", None]),
)
def test_no_value_makes_it_raise(value: dict[str, Any], kind: Any) -> None:
    plain = document({})._replace(value={"machine_rank": 0, "distributed_type": kind, **value}, path="a.json")
    accelerate.parse(plain, context())
    parsed = trainer.parse(document(TRAIN), context(companions=(plain,)))
    assert len(parsed.runs) == 1


@pytest.mark.parametrize(
    ("fsdp", "wrap", "size"),
    [
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP"}, "size", 100_000_000),
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 2000}, "size", 2000),
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 0}, "none", 0),
        ({}, "none", 100_000_000),
    ],
)
def test_wrapping_by_size(fsdp: dict[str, Any], wrap: str, size: int) -> None:
    launch = {**LAUNCH, "distributed_type": "FSDP", "fsdp_config": fsdp}
    run = accelerate.parse(document(launch, "launch.json"), context()).runs[0]
    assert (run.parallelism.fsdp.wrap, run.parallelism.fsdp.min_num_params) == (wrap, size)


def test_a_launch_file_alone_knows_its_gpus_and_its_sharding() -> None:
    launch = {**LAUNCH, "distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}
    run = accelerate.parse(document(launch, "launch.json"), context()).runs[0]
    assert (run.purpose, run.parallelism.world_size, run.parallelism.zero.stage) == ("partial", 8, 3)


@pytest.mark.parametrize(("word", "device"), [("None", "none"), ("CPU", "cpu"), ("nvme", "nvme")])
def test_the_launcher_takes_devices_in_any_case(word: str, device: str) -> None:
    """accelerate 1.15 utils/launch.py:574 writes `str(device).lower()` into the environment."""
    launch = {"zero_stage": 3, "offload_optimizer_device": word, "offload_param_device": word}
    text = yaml.safe_dump({"distributed_type": "DEEPSPEED", "deepspeed_config": launch, "num_processes": 8})
    workspace = in_memory({"launch.yaml": text})
    parsed = accelerate.parse(workspace.documents("launch.yaml")[0], workspace.context())
    assert not parsed.issues
    assert (parsed.runs[0].offload.optimizer, parsed.runs[0].offload.parameters) == (device, device)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"overlap_comm": True, "reduce_bucket_size": 5e8}, "unknown keys `overlap_comm` and `reduce_bucket_size`: "),
        ({"overlap_comm": True}, "unknown key `overlap_comm`"),
        ({"overlap_comm": True, "zero_stag": 2}, "unknown key `overlap_comm`"),
    ],
)
def test_keys_of_deepspeed_in_its_section_are_told_together(more: dict[str, Any], said: str) -> None:
    """accelerate 1.15 commands/launch.py makes arguments of the section's keys, and nobody asks for these."""
    section = {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 2, **more}}
    found = [one.message for one in accelerate.parse(document({**LAUNCH, **section}), context()).issues]
    assert [one[: len(said)] for one in found if "overlap_comm" in one] == [said]
    assert len(found) == (2 if "zero_stag" in more else 1)


def test_a_launch_file_that_accelerate_refuses_sets_no_engine() -> None:
    """accelerate 1.10 commands/config/config_args.py, from_yaml_file: unknown keys at the top raise ValueError."""
    launch = {"distributed_type": "DEEPSPEED", "num_processes": 2, "zero_stage": 2}
    run = run_of(joined(launch))
    assert run.parallelism.engine is UNKNOWN
    assert "accelerate refuses" in run.origins["parallelism.engine"].detail
    named = {"run.sh": "accelerate launch --config_file l.yaml train.py --per_device_train_batch_size 2\n"}
    named |= {"l.yaml": yaml.safe_dump(launch), "train.py": PROGRAM}
    (found,) = in_memory(named).documents("run.sh")
    assert found.start is not None and found.start.machine.launch_file is not None
    options = found.start.machine.launch_file
    files = context({"l.yaml": yaml.safe_dump(launch)}, companions=(options,))
    assert run_of(trainer.parse(found, files)).parallelism.engine is UNKNOWN


PROGRAM = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(model=load(), args=args).train()
"""
