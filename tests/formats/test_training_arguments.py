"""TrainingArguments as neutral fields: defaults by version, aliases, optimizer options, evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.fields import Fields, root
from memlint.formats.keys import FieldChange
from memlint.formats.training_arguments import apply, arguments, optimizer_options
from memlint.formats.training_arguments.keys import KEYS
from memlint.run import UNKNOWN, Run, get, replace
from tests.formats.frameworks import document


def run_of(training: dict[str, Any], **versions: tuple[int, ...]) -> Run:
    fields = Fields()
    apply(fields, arguments(root(document(training)), versions), versions)
    return fields.run("trainer", "train.json")


# transformers 5.23 training_args.py, pytorch_utils.py; 4.57.6 for the older column.
@pytest.mark.parametrize(
    ("field", "newest", "older"),
    [
        ("batch.micro_batch_size", 8, 8),
        ("batch.gradient_accumulation_steps", 1, 1),
        ("evaluation.batch_size", 8, 8),
        ("evaluation.enabled", False, False),
        ("checkpointing.mode", "none", "none"),
        ("checkpointing.reentrant", False, True),  # modeling_utils.py:3149 against 4.57.6:3692
        ("optimizer.name", "adamw_torch_fused", "adamw_torch"),  # fused since torch 2.8
        ("optimizer.max_grad_norm", 1.0, 1.0),
        ("precision.autocast", False, False),
        ("parallelism.find_unused_parameters", True, True),
        ("saving.enabled", True, True),
    ],
)
def test_defaults(field: str, newest: object, older: object) -> None:
    assert get(run_of({}), field) == newest
    assert get(run_of({}, transformers=(4, 57), torch=(2, 6)), field) == older
    assert run_of({}).origins[field].kind in ("default", "inferred")


@pytest.mark.parametrize(
    ("transformers", "reduces"),
    [((4, 45), True), ((4, 46), False), ((4, 57), False), ((5, 1), False), ((5, 2), True), ((), True)],
)
def test_sync_each_batch_reduces_gradients_where_the_release_reads_it(
    transformers: tuple[int, ...], reduces: bool
) -> None:
    versions = {"transformers": transformers} if transformers else {}
    says = {"accelerator_config": {"gradient_accumulation_kwargs": {"sync_each_batch": True}}}
    assert get(run_of(says, **versions), "parallelism.fsdp.reduces_each_backward") is reduces
    for other in ({}, {"accelerator_config": "file.json"}, {"accelerator_config": {"split_batches": True}}):
        assert get(run_of(other, **versions), "parallelism.fsdp.reduces_each_backward") is False


@pytest.mark.parametrize(
    ("field", "value", "since"),
    [
        ("optimizer.name", "adamw_torch_fused", (4, 28)),
        ("optimizer.name", "paged_adamw_32bit", (4, 30)),
        ("optimizer.name", "adamw_torch_8bit", (4, 49)),
        ("loss.liger_kernels", True, (4, 45)),
        ("parallelism.fsdp.reduces_each_backward", True, (4, 40)),
    ],
)
def test_nothing_is_written_that_an_older_release_does_not_take(
    field: str, value: object, since: tuple[int, int]
) -> None:
    """FastChat of transformers 4.28 had no paged optimizer, no options of accelerate and no Liger kernels."""

    def written(*release: int) -> object:
        one = replace(Run("trainer", "train.json"), {"stack.transformers": release})
        return KEYS.write(FieldChange(field, value, {}, {}, one))

    assert written(*since) and written()
    assert written(since[0], since[1] - 1) is None


@pytest.mark.parametrize(
    ("training", "field", "value"),
    [
        ({"activation_checkpointing": True}, "checkpointing.mode", "full"),
        ({"activation_checkpointing": False, "gradient_checkpointing": True}, "checkpointing.mode", "none"),
        ({"gradient_checkpointing": True}, "parallelism.find_unused_parameters", False),
        (
            {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}},
            "checkpointing.reentrant",
            True,
        ),
        (
            {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"every_n_layers": 2}},
            "checkpointing.every",
            2,
        ),
        (
            {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"offload": True}},
            "checkpointing.offload",
            True,
        ),
        ({"per_gpu_train_batch_size": 3}, "batch.micro_batch_size", 3),
        ({"evaluation_strategy": "steps"}, "evaluation.enabled", True),
        ({"eval_strategy": False}, "evaluation.enabled", False),  # YAML reads a bare `no` so
        ({"do_eval": True}, "evaluation.enabled", True),
        ({"bf16": True}, "precision.compute", "bfloat16"),
        ({"fp16": True}, "precision.outputs_to_fp32", True),
        ({"optim": "galore_adamw", "optim_args": "rank=64, update_proj_gap=100"}, "optimizer.rank", 64),
        ({"optim": "sgd", "optim_args": "momentum=0.9"}, "optimizer.momentum", 0.9),
        ({"optim": "galore_adamw_layerwise"}, "optimizer.layerwise", True),
        ({"optim_target_modules": ["attn", "mlp"]}, "optimizer.targets", ("attn", "mlp")),
        ({"label_smoothing_factor": 0.1}, "loss.label_smoothing", 0.1),
        ({"torch_compile_backend": "inductor"}, "stack.compile", True),
        ({"per_device_train_batch_size": "4"}, "batch.micro_batch_size", 4),
        ({"per_device_train_batch_size": 0}, "batch.micro_batch_size", UNKNOWN),
        ({"per_device_train_batch_size": [1, 2]}, "batch.micro_batch_size", UNKNOWN),
        ({"per_device_train_batch_size": None}, "batch.micro_batch_size", 8),
        ({"save_strategy": "no"}, "saving.enabled", False),
    ],
)
def test_what_keys_mean(training: dict[str, Any], field: str, value: object) -> None:
    assert get(run_of(training), field) == value


def test_every_value_knows_where_it_came_from() -> None:
    run = run_of({"per_device_train_batch_size": 2})
    assert run.origins["batch.micro_batch_size"].pointer == ("per_device_train_batch_size",)
    assert run.origins["batch.micro_batch_size"].column > 1
    assert run.origins["batch.gradient_accumulation_steps"].detail == "transformers 5.24 TrainingArguments"


@pytest.mark.parametrize(
    ("text", "options"),
    [("rank=64, scale=2", {"rank": "64", "scale": "2"}), ("", {}), ("rank", {}), (7, {}), (None, {})],
)
def test_optimizer_options(text: Any, options: dict[str, str]) -> None:
    assert optimizer_options(text) == options


@pytest.mark.parametrize(
    ("release", "name"),
    [((4, 15), "adamw_hf"), ((4, 31), "adamw_hf"), ((4, 32), "adamw_torch"), ((4, 57), "adamw_torch")],
)
def test_before_4_32_the_default_optimizer_is_transformers_own(release: tuple[int, ...], name: str) -> None:
    assert run_of({}, transformers=release, torch=(2, 0)).optimizer.name == name
