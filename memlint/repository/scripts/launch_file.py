"""Converts the options of `accelerate launch` to a launch file of accelerate (1.15 commands/launch.py:156-900).

The values of a file named by `--config_file` are included; the command's own options override them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from memlint.repository.scripts.commands import LaunchCommand, Option
from memlint.repository.scripts.document import Values
from memlint.repository.scripts.placed import Placed
from memlint.repository.scripts.values import scalar
from memlint.source.document import AcceptedArguments, Document, Start, ValueSources

_TYPES = {"multi_gpu": "MULTI_GPU", "use_deepspeed": "DEEPSPEED", "use_fsdp": "FSDP", "use_megatron_lm": "MEGATRON_LM"}
_PLAIN = frozenset(("num_processes", "num_machines", "mixed_precision", "gpu_ids", "machine_rank", "dynamo_backend"))
_DEEPSPEED = frozenset(
    ("zero_stage", "offload_optimizer_device", "offload_param_device", "deepspeed_config_file", "gradient_clipping")
    + ("gradient_accumulation_steps", "zero3_init_flag", "zero3_save_16bit_model", "deepspeed_hostfile")
)
_NUMBERS = frozenset(("integer", "number", "boolean", "string"))


def launch_file(
    command: LaunchCommand, values: Values, path: str, text: str, read: Callable[[str], Any]
) -> Document | None:
    """The launcher's options as a document; None if none of them matters. `values`: empty, for the script that the
    command is in; `path`: how reports name that script; `read`: returns the named file."""
    named = command.option("config_file")
    file = read(named.values[0].text) if named is not None and named.values else None
    own = [one for option in command.options for one in _placed(option)]
    if named is not None and named.values and not _is_launch_file(file):
        for one in _absent(named):
            values.put(one)
    elif isinstance(file, Document) and isinstance(file.value, dict):
        if not own:
            return file
        for key, value in file.value.items():
            values.put(Placed((str(key),), value, named.flag.at if named else None))
    for one in own:
        values.put(one)
    if not values.value:
        return None
    if "distributed_type" not in values:
        several = values.value.get("num_processes", 1) != 1
        values.put(Placed(("distributed_type",), "MULTI_GPU" if several else "NO"))
    if "compute_environment" not in values:
        values.put(Placed(("compute_environment",), "LOCAL_MACHINE"))
    given = frozenset(str(one.path[-1]) for one in own)
    accepted, sources = AcceptedArguments(defined=given), ValueSources(files=_taken(file, own))
    return values.document(path, text, Start("accelerate", "accelerate", values=sources, accepted=accepted))


def _taken(file: Any, own: list[Placed]) -> dict[str, Any]:
    """Key -> the named file, for each of its keys that no option overrides."""
    touched = {str(one.path[0]) for one in own}
    keys = file.value if isinstance(file, Document) and isinstance(file.value, dict) else {}
    return {str(key): file for key in keys if key not in touched}


def _is_launch_file(file: Any) -> bool:
    """Whether accelerate accepts the file: it requires this key (1.15 commands/config/config_args.py,
    process_config)."""
    return isinstance(file, Document) and (not isinstance(file.value, dict) or "distributed_type" in file.value)


def _absent(named: Option) -> Iterator[Placed]:
    """The name of a launch file that is missing or invalid, so that the format can report it; of one that only the
    script's caller or its machine knows, that the engine is unknown."""
    word = named.values[0]
    if word.unknown:
        reason = f"the launch file says it, which is not known: {word.unknown}"
        for key in ("distributed_type", "mixed_precision"):
            yield Placed((key,), f"${{{key}}}", unknown=reason)
        return
    yield Placed(("config_file",), word.text, named.flag.at, word.at, word.source)
    yield Placed(("distributed_type",), "${distributed_type}", unknown=f"`{word.text}` says it, which is not there")


def _placed(option: Option) -> list[Placed]:
    name, at = option.name, option.flag.at
    if name in _TYPES:
        return [Placed(("distributed_type",), _TYPES[name], at)]
    if not option.values:
        return []
    word = option.values[0]
    section = "deepspeed_config" if name in _DEEPSPEED else "fsdp_config" if name.startswith("fsdp_") else ""
    if not section and name not in _PLAIN:
        return []
    # The parser keeps ids as text (accelerate 1.15.0 commands/launch.py), where a file's `gpu_ids: 0` is a number.
    value = word.text if name == "gpu_ids" and not word.unknown else scalar(word, _NUMBERS)
    path = (section, name) if section else (name,)
    return [Placed(path, value, at, word.at, word.source, word.unknown)]
