"""The schemas beside the installed frameworks: every key, with its default. Sources are read and not run."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCHEMAS = Path(__file__).parents[2] / "schemas"


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    return loaded


def source(package: str, path: str) -> ast.Module:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return ast.parse((Path(spec.origin).parent / path).read_text(encoding="utf-8"))


def class_fields(module: ast.Module, *names: str) -> Iterator[tuple[str, ast.expr | None]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    yield line.target.id, line.value


def default_of(value: ast.expr | None) -> Any:
    """The literal default of a dataclass field; None where there is none."""
    if isinstance(value, ast.Call):
        value = next((word.value for word in value.keywords if word.arg == "default"), None)
    try:
        return ast.literal_eval(value) if value is not None else None
    except ValueError:
        return None


def test_every_training_argument_is_there() -> None:
    properties = schema("trainer.json")["properties"]
    fields = dict(class_fields(source("transformers", "training_args.py"), "TrainingArguments"))
    assert len(fields) > 90
    assert [name for name in fields if name not in properties] == []
    assert [name for name in fields if "x-memlint-removed-in" in properties[name]] == []


def test_defaults_are_the_frameworks() -> None:
    # Where TRL or an older release has another default, the schema has none.
    properties = schema("trainer.json")["properties"]
    fields = dict(class_fields(source("transformers", "training_args.py"), "TrainingArguments"))
    compared = 0
    for name, value in fields.items():
        found, wanted = properties[name].get("default"), default_of(value)
        if found is not None and isinstance(wanted, (bool, int, float, str)):
            assert (name, found) == (name, wanted)
            compared += 1
    assert compared > 25


def test_every_launch_key_is_there() -> None:
    properties = schema("accelerate.json")["properties"]
    module = source("accelerate", "commands/config/config_args.py")
    fields = [name for name, _ in class_fields(module, "BaseConfig", "ClusterConfig", "SageMakerConfig")]
    assert len(fields) > 30
    assert [name for name in fields if name not in properties] == []


# deepspeed 0.19.8 zero/config.py, offload_config.py, precision_config.py, runtime/constants.py
@pytest.mark.parametrize(
    ("path", "default"),
    [
        (("zero_optimization", "stage"), 0),
        (("zero_optimization", "reduce_bucket_size"), 500_000_000),
        (("zero_optimization", "stage3_prefetch_bucket_size"), 50_000_000),
        (("zero_optimization", "prefetch_bucket_size"), 50_000_000),
        (("zero_optimization", "stage3_param_persistence_threshold"), 100_000),
        (("zero_optimization", "contiguous_gradients"), True),
        (("fp16", "initial_scale_power"), 16),
        (("bf16", "immediate_grad_update"), False),
        (("gradient_clipping",), 1.0),
        (("zero_force_ds_cpu_optimizer",), True),
        (("compile", "deepcompile"), False),
        (("hybrid_engine", "max_out_tokens"), 512),
    ],
)
def test_deepspeed_defaults(path: tuple[str, ...], default: object) -> None:
    node = schema("deepspeed.json")
    for key in path:
        node = node["properties"][key]
    assert node["default"] == default


def test_removed_deepspeed_keys_say_since_when() -> None:
    # _REMOVED_TOP_LEVEL_CONFIG_KEYS and _REMOVED_ZERO_CONFIG_KEYS of the releases 0.19.7 and 0.19.8
    properties = schema("deepspeed.json")["properties"]
    first = ("nebula", "compression_training", "quantize_training", "sparse_attention")
    later = ("amp", "sparse_gradients", "eigenvalue", "elasticity", "graph_harvesting", "curriculum_learning")
    assert {properties[key]["x-memlint-removed-in"] for key in first} == {"deepspeed 0.19.7"}
    assert {properties[key]["x-memlint-removed-in"] for key in later} == {"deepspeed 0.19.8"}
    assert (
        properties["zero_optimization"]["properties"]["mics_shard_size"]["x-memlint-removed-in"] == "deepspeed 0.19.7"
    )


# The first release of transformers whose TrainingArguments lack the key; 4.57.6, 5.0.0 to 5.23.0 were compared.
@pytest.mark.parametrize(
    ("key", "since", "now"),
    [
        ("overwrite_output_dir", "transformers 5.0", None),
        ("per_gpu_train_batch_size", "transformers 5.0", "per_device_train_batch_size"),
        ("group_by_length", "transformers 5.2", "train_sampling_strategy"),
        ("warmup_ratio", "transformers 5.15", "warmup_steps"),
        ("logging_dir", "transformers 5.15", None),
        ("max_seq_length", "trl 0.20", "max_length"),
        ("use_liger", "trl 0.18", "use_liger_kernel"),
    ],
)
def test_removed_training_arguments_say_since_when(key: str, since: str, now: str | None) -> None:
    found = schema("trainer.json")["properties"][key]
    assert (found["x-memlint-removed-in"], found.get("x-memlint-renamed-to")) == (since, now)
