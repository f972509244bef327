"""AutoTrain's training configs and commands: recognition, what each parameter becomes, what is refused, edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.formats import recognise
from memlint.formats.autotrain import format as autotrain
from memlint.formats.base import Parsed
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import UNKNOWN, Run, get
from memlint.source.document import Document
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of

SFT: dict[str, Any] = {
    "task": "llm-sft",
    "base_model": "some/model",
    "project_name": "my-project",
    "log": "tensorboard",
    "backend": "local",
    "data": {
        "path": "some/data",
        "train_split": "train",
        "valid_split": None,
        "chat_template": "tokenizer",
        "column_mapping": {"text_column": "messages"},
    },
    "params": {"block_size": 2048, "batch_size": 4, "mixed_precision": "bf16"},
}
QLORA = {"params.peft": True, "params.quantization": "int4"}
COMMAND = "autotrain llm --train --project-name p --model Qwen/Qwen2.5-0.5B --data-path . --trainer sft"


def changed(pairs: dict[str, Any]) -> dict[str, Any]:
    """SFT with dotted keys set; without those that are `...`."""
    found: dict[str, Any] = json.loads(json.dumps(SFT))
    for key, value in pairs.items():
        *outer, last = key.split(".")
        node = found
        for step in outer:
            node = node[step]
        node.pop(last, None)
        if value is not ...:
            node[last] = value
    return found


def parsed(pairs: dict[str, Any], gpus: int = 1, **fields: Any) -> Parsed:
    return autotrain.parse(document(changed(pairs)), context(gpus=gpus, gpus_per_node=gpus, **fields))


def read(pairs: dict[str, Any], gpus: int = 1, **fields: Any) -> Run:
    return run_of(parsed(pairs, gpus, **fields))


def launches(script: str) -> tuple[Document, ...]:
    return in_memory({"go.sh": script}).documents("go.sh")


def launched(flags: str, before: str = "") -> Run:
    workspace = in_memory({"go.sh": f"{before}{COMMAND} {flags}"})
    return Engine(()).analyse(workspace.documents("go.sh")[0], workspace.context()).runs[0]


# -- recognition -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (SFT, "autotrain"),
        (changed({"task": "llm-kto"}), "autotrain"),  # a task that it refuses
        (changed({"task": "text-classification"}), ""),  # of other models
        ({"task": "llm-sft"}, ""),
        ({"task": "sft", "base_model": "a/b", "params": {}}, ""),
    ],
)
def test_recognition(value: Any, name: str) -> None:
    found = recognise(document(value))
    assert (found[0].NAME if found and found[1].confidence != "unsure" else "") == name


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_breaks_it(value: Any) -> None:
    whole = {"task": "llm", "base_model": value, "data": value, "params": value, "project_name": value}
    autotrain.parse(document(json.dumps(whole)), context())
    autotrain.parse(document(json.dumps({"model": value, "batch_size": value, "peft": value})), context())


# -- what parameters become --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "field", "value"),
    [
        ({}, "batch.micro_batch_size", 4),
        ({}, "batch.gradient_accumulation_steps", 4),  # AutoTrain's default
        ({}, "method.kind", "full"),
        ({}, "model.weights_dtype", "float32"),  # whatever autocast computes in
        ({}, "precision.autocast", True),
        ({}, "precision.compute", "bfloat16"),
        ({"params.mixed_precision": None}, "precision.compute", "float32"),
        ({}, "sequence.length", 2048),
        ({"params.block_size": ...}, "sequence.length", 1024),
        ({"params.block_size": -1}, "sequence.length", 1024),
        ({"params.block_size": 8192}, "sequence.length", 2048),  # what every tokenizer is cut at
        ({"params.block_size": 8192, "params.model_max_length": 4096}, "sequence.length", 4096),
        ({"params.block_size": [1024, 512]}, "sequence.length", UNKNOWN),
        ({}, "sequence.packing", True),
        ({"task": "llm-dpo"}, "sequence.packing", False),
        ({}, "checkpointing.mode", "full"),
        ({"params.disable_gradient_checkpointing": True}, "checkpointing.mode", "none"),
        ({}, "checkpointing.reentrant", False),
        (QLORA, "checkpointing.reentrant", True),
        ({"params.optimizer": "paged_adamw_8bit"}, "optimizer.name", "paged_adamw_8bit"),
        ({"params.quantization": "int4"}, "model.quantization.bits", 16),  # without an adapter
        ({"params.peft": True}, "model.quantization.bits", 4),  # AutoTrain's default
        ({"params.peft": True, "params.quantization": "none"}, "model.quantization.bits", 16),
        ({**QLORA, "params.quantization": "int8"}, "model.quantization.bits", 8),
        (QLORA, "model.quantization.kind", "nf4"),
        (QLORA, "model.quantization.upcast_rest_to_fp32", True),  # by TRL
        ({**QLORA, "task": "llm-generic"}, "model.quantization.vocabulary_to_bf16", True),  # by AutoTrain
        ({"task": "llm-generic"}, "stack.unmodelled", "its head and embeddings in bf16, other weights in fp32"),
        (QLORA, "method.rank", 16),
        (QLORA, "method.dropout", 0.05),
        (QLORA, "method.targets", ("all-linear",)),
        ({**QLORA, "params.target_modules": "q_proj,v_proj"}, "method.targets", ("q_proj", "v_proj")),
        ({"params.use_flash_attention_2": True}, "attention.implementation", "flash_attention_2"),
        ({"task": "llm-dpo"}, "method.stage", "dpo"),
        ({"task": "llm", "params.trainer": "orpo"}, "method.stage", "orpo"),
        ({"task": "llm-sft", "params.trainer": "reward"}, "method.stage", "rm"),  # the parameter comes last
        ({"task": "llm-dpo"}, "sequence.max_prompt_length", 128),
        ({}, "evaluation.enabled", False),
        ({"data.valid_split": "test"}, "evaluation.enabled", True),
    ],
)
def test_parameters(pairs: dict[str, Any], field: str, value: Any) -> None:
    found = get(read(pairs), field)
    assert found == value or (isinstance(value, tuple) and tuple([found] if isinstance(found, str) else found) == value)


def test_what_stands_outside_of_the_sections_is_read_nowhere() -> None:
    assert read({"batch_size": 64}).batch.micro_batch_size == 4


def test_several_gpus_get_a_process_each() -> None:
    assert read({}, gpus=4).parallelism.engine == "ddp"
    sharded = read({"params.distributed_backend": "deepspeed"}, gpus=4)
    assert (sharded.parallelism.engine, sharded.parallelism.zero.stage) == ("deepspeed", 3)
    assert read({"params.distributed_backend": "deepspeed"}).parallelism.engine == "single"


def test_releases_are_those_that_autotrain_pins() -> None:
    assert (read({}).stack.trl, read({}).stack.transformers) == ((0, 13), (4, 48))
    older = read({}, versions={"autotrain-advanced": (0, 8, 21)})
    assert (older.stack.trl, older.stack.transformers) == ((0, 10), (4, 44))


def test_values_have_the_places_of_parameters() -> None:
    origins = read({"params.block_size": 8192, **QLORA}).origins
    assert origins["batch.micro_batch_size"].pointer == ("params", "batch_size")
    assert origins["method.kind"].pointer == ("params", "peft")
    assert origins["model.quantization.bits"].pointer == ("params", "quantization")


# -- commands ----------------------------------------------------------------------------------------


def test_flags_are_parameters() -> None:
    run = launched("--peft --batch-size 8 --gradient_accumulation 2 --lora-r 8 --mixed-precision fp16 --block_size 512")
    assert (run.method.kind, run.method.rank, run.model.quantization.bits) == ("lora", 8, 4)
    assert (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps) == (8, 2)
    assert (run.sequence.length, run.precision.compute, run.model.name) == (512, "float16", "Qwen/Qwen2.5-0.5B")
    assert launched("--use_peft --use_int8").model.quantization.bits == 8
    assert launched("").sequence.length == 1024
    assert launched("", "export CUDA_VISIBLE_DEVICES=0,1\n").parallelism.world_size == 2


def test_a_command_that_trains_nothing_is_no_run() -> None:
    assert launches("autotrain llm --deploy --model a/b") == ()
    assert launches("autotrain app --port 8080") == ()


# -- issues ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ({"task": "llm-kto"}, "bad-value"),
        ({"backend": ...}, "missing-key"),
        ({"data.chat_template": ...}, "missing-key"),
        ({"params.trainer": "kto"}, "bad-value"),
        ({"project_name": "my_project"}, "bad-value"),
        ({"project_name": "a" * 51}, "bad-value"),
        ({"params.batch_size": "four"}, "wrong-type"),
        ({"params.peft": "maybe"}, "wrong-type"),
        ({"params.quantization": 4}, "wrong-type"),
    ],
)
def test_what_autotrain_refuses(pairs: dict[str, Any], code: str) -> None:
    assert code in codes(parsed(pairs), "error")


@pytest.mark.parametrize(
    "pairs",
    [
        {"params.lora_rank": 8},  # a name that AutoTrain drops
        {"params.quantization": "int4"},
        {"params.block_size": 8192},
    ],
)
def test_what_has_no_effect_is_told_of(pairs: dict[str, Any]) -> None:
    assert codes(parsed(pairs), "warning") == ["ignored-key"]
    assert codes(parsed(pairs), "error") == []


@pytest.mark.parametrize("pairs", [{}, QLORA, {"params.batch_size": "4"}, {"params.peft": "yes"}, {"hub": {}}])
def test_what_autotrain_takes(pairs: dict[str, Any]) -> None:
    assert codes(parsed(pairs)) == []


def test_only_several_gpus_ask_for_a_backend() -> None:
    pairs = {"params.distributed_backend": "fsdp"}
    assert (codes(parsed(pairs, gpus=4)), codes(parsed(pairs))) == (["bad-value"], [])


# -- edits and plans ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "changes", "after"),
    [
        ({}, {"batch.micro_batch_size": 1}, {"params.batch_size": 1}),
        ({}, {"sequence.length": 1024}, {"params.block_size": 1024}),
        ({}, {"sequence.length": 4096}, {"params.block_size": 4096, "params.model_max_length": 4096}),
        ({}, {"method.kind": "lora"}, {"params.peft": True, "params.quantization": "none"}),
        (
            {},
            {"method.kind": "lora", "model.quantization.bits": 4},
            {"params.peft": True, "params.quantization": "int4"},
        ),
        ({}, {"checkpointing.mode": "none"}, {"params.disable_gradient_checkpointing": True}),
        ({}, {"attention.implementation": "flash_attention_2"}, {"params.use_flash_attention_2": True}),
    ],
)
def test_changes_are_written_as_parameters(
    pairs: dict[str, Any], changes: dict[str, Any], after: dict[str, Any]
) -> None:
    before = parsed(pairs)
    found = autotrain.edits(before, run_of(before), changes)
    assert applied(changed(pairs), found, "train.json") == changed({**pairs, **after})


def test_what_has_no_parameter_is_not_written() -> None:
    before = parsed({})
    assert autotrain.edits(before, run_of(before), {"loss.kind": "liger"}) is None
