"""Write schemas/accelerate.json from accelerate's sources, which are read and never run (read: 1.15.0).

python tools/accelerate_schema.py FOLDER      (that holds `accelerate`, unpacked from its wheel)
python tools/schema_descriptions.py
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

from schema_parts import Schema, write
from trainer_schema import annotation_of, enum_values

from memlint.formats.accelerate.keys import KEYS, OPTIONS
from memlint.formats.keys import Key

DISTRIBUTED_OTHER = ["DATA_PARALLEL", "MODEL_PARALLEL", "MULTI_MUSA", "TPU", "MULTI_SDAA"]
# Words of utils/dataclasses.py:DistributedType in older releases (1.4 to 1.9).
DISTRIBUTED_GONE = {"TP": "accelerate 1.10"}
# How many of an option's words have a number, which starts at 1 (utils/dataclasses.py:1849).
FSDP_NUMBERS = {"sharding_strategy": 5, "auto_wrap_policy": 0, "backward_prefetch": 2, "state_dict_type": 3}
# What `accelerate config` wrote up to 0.25; 0.34.2 commands/launch.py:545 still reads it, 1.0 does not.
PREFETCH_POLICY: Schema = {
    "x-memlint-removed-in": "accelerate 1.0",
    "x-memlint-renamed-to": "fsdp_backward_prefetch",
}
# utils/dataclasses.py, DeepSpeedPlugin: float() of what the launcher hands on as text.
CLIPPING: Schema = {
    "anyOf": [{"type": ["number", "null"]}, {"pattern": "^(auto|none|None|[0-9.eE+-]+)$"}],
    "x-memlint-says": "a number or auto",
}
VERSION: Schema = {"enum": [1, 2, "1", "2", None]}
# The plug-in's own names (utils/dataclasses.py:1783). A section holds launch options, so nothing reads them there.
WRAP_ALIASES = {
    "fsdp_transformer_cls_names_to_wrap": {"key": "fsdp_transformer_layer_cls_to_wrap"},
    "transformer_cls_names_to_wrap": {"key": "fsdp_transformer_layer_cls_to_wrap"},
}
# Fields that config_args.py had in older releases (0.3 to 1.14 were compared with 1.15), and that of KTransformers' own
# build, accelerate-kt, which had it in 1.14.0 and 1.14.0.post1 alone.
GONE: dict[str, Schema] = {
    "ipex_config": {
        "x-memlint-removed-in": "accelerate 1.13",
        "x-memlint-note": "newer releases refuse a file that has it",
    },
    "tp_config": {
        "x-memlint-removed-in": "accelerate 1.7",
        "x-memlint-note": "newer releases refuse a file that has it; `parallelism_config` is there",
    },
    "kt_config": {
        "x-memlint-removed-in": "accelerate-kt 1.14.0.post2",
        "x-memlint-note": "accelerate itself and newer releases refuse a file that has it",
    },
}


def cluster_keys(source: Path) -> dict[str, Schema]:
    """The fields of the config classes: what from_yaml_file takes; other keys raise ValueError."""
    found: dict[str, Schema] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    found.setdefault(line.target.id, annotation_of(ast.unparse(line.annotation), {}))
    return found


def launch_options(source: Path, prefixes: tuple[str, ...]) -> list[str]:
    """Long options of `accelerate launch` that start with one of `prefixes`."""
    calls = (node for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    words = (arg.value for call in calls for arg in call.args if isinstance(arg, ast.Constant))
    names = sorted({word[2:] for word in words if isinstance(word, str) and word.startswith("--")})
    return [name for name in names if name.startswith(prefixes)]


def section(names: list[str], **typed: Schema) -> Schema:
    """A section: its keys are launch options; others are passed on and change nothing."""
    properties: dict[str, Schema] = {**{name: {} for name in names}, **typed}
    return {
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": False,
        "x-memlint-unknown": "warning",
    }


def words_of(key: Key) -> tuple[Any, ...]:
    """The values that the table of keys lists."""
    return tuple(key.values or ())


def choice(words: tuple[str, ...], numbers: int) -> Schema:
    """One of `words` in capitals or small letters, its number, or nothing."""
    small = [word.lower() for word in words]
    counted = [*range(1, numbers + 1)]
    return {"enum": [*words, *small, *counted, *map(str, counted), None]}


def main(folder: Path) -> None:
    package = folder / "accelerate" / "accelerate"
    keys = cluster_keys(package / "commands" / "config" / "config_args.py")
    launch = package / "commands" / "launch.py"
    kinds = enum_values(package / "utils" / "dataclasses.py")
    properties: dict[str, Schema] = {name: nullable(schema) for name, schema in keys.items()}
    properties["distributed_type"] = {
        "enum": [*kinds["DistributedType"], *DISTRIBUTED_OTHER, False, *DISTRIBUTED_GONE],
        "x-memlint-removed-values": DISTRIBUTED_GONE,
    }
    properties["compute_environment"] = {"enum": kinds["ComputeEnvironment"]}
    properties["mixed_precision"] = {"enum": ["no", "fp16", "bf16", "fp8", "fp32", "NO", "FP16", "BF16", False, None]}
    properties["num_processes"] = {"type": ["integer", "null"], "minimum": -1}
    properties["downcast_bf16"] = {}
    properties["gpu_ids"] = {}
    # Both are compared with numbers as they stand (commands/launch.py:1258, utils/other.py:is_port_in_use).
    properties["num_machines"] = {"type": ["integer", "null"]}
    properties["main_process_port"] = {"type": ["integer", "null"], "minimum": 0, "maximum": 65535}
    properties["fp16"] = {"deprecated": True}
    properties["dynamo_backend"] = {"deprecated": True}
    # utils/launch.py:187 takes any case; the last two are older releases'.
    backends = [*kinds["DynamoBackend"], "IPEX", "HPU_BACKEND"]
    backend = {"enum": [*backends, *(name.lower() for name in backends), None]}
    properties["dynamo_config"] = {"type": ["null", "object"], "properties": {"dynamo_backend": backend}}
    properties.update(GONE)
    fsdp = launch_options(launch, ("fsdp_",))
    bare = [name.removeprefix("fsdp_") for name in fsdp]
    words = {name: choice(words_of(OPTIONS[name]), numbers) for name, numbers in FSDP_NUMBERS.items()}
    properties["fsdp_config"] = section(
        [*fsdp, *bare, "fsdp_ignored_modules"],
        **words,
        version=VERSION,
        fsdp_version=VERSION,
        **{f"fsdp_{name}": schema for name, schema in words.items()},
        fsdp_backward_prefetch_policy=PREFETCH_POLICY,
    )
    properties["fsdp_config"]["x-memlint-aliases"] = WRAP_ALIASES
    deepspeed = launch_options(launch, ("deepspeed_", "zero", "offload_", "gradient_"))
    devices = ("offload_optimizer_device", "offload_param_device")
    typed = {name: {"enum": [*words_of(KEYS[f"deepspeed_config.{name}"]), None]} for name in devices}
    stage: Schema = {"enum": [*words_of(KEYS["deepspeed_config.zero_stage"])]}
    properties["deepspeed_config"] = section(deepspeed, zero_stage=stage, gradient_clipping=CLIPPING, **typed)
    prefix = "parallelism_config_"
    degrees = [f"{prefix}{name}_size" for name in ("dp_replicate", "dp_shard", "tp", "cp", "sp")]
    typed = {name: {"type": ["integer", "string", "null"], "minimum": 1} for name in degrees}
    typed[f"{prefix}cp_comm_strategy"] = {"enum": ["allgather", "alltoall", None]}
    typed[f"{prefix}sp_attn_implementation"] = {
        "anyOf": [{"enum": ["flash_attention_2", "flash_attention_3", "sdpa", None]}, {"pattern": "/.*flash-attn"}]
    }
    properties["parallelism_config"] = section(launch_options(launch, (prefix,)), **typed)
    properties["megatron_lm_config"] = section(launch_options(launch, ("megatron_lm_",)))
    frame: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "accelerate launch configuration",
        "description": "Generated by tools/accelerate_schema.py from accelerate 1.15.0.",
        "type": "object",
        "properties": properties,
        "required": ["distributed_type"],
        "additionalProperties": False,
        "x-memlint-unknown": "error",
    }
    write("accelerate.json", frame)


def nullable(schema: Schema) -> Schema:
    """Hand-written files leave keys empty and quote numbers; accelerate checks neither."""
    kinds = schema.get("type")
    if kinds is None:
        return {}
    words = [kinds] if isinstance(kinds, str) else list(kinds)
    return {
        "type": sorted(
            {*words, "null", "string"} if "array" not in words and "object" not in words else {*words, "null"}
        )
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
