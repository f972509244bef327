"""Changes of a run as edits of an Axolotl file and the DeepSpeed file behind it. The table of keys says what Axolotl's
own keys can say; the rest is DeepSpeed's: its file, a section of its own, or another of the files that Axolotl ships.

Read in axolotl 0.19.0: utils/trainer.py, utils/schemas/validation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.edits import STARTED
from memlint.formats.axolotl.keys import KEYS
from memlint.formats.axolotl.parallel import shipped_deepspeed, started_fsdp
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED, deepspeed_edits, new_section, placed, repeats
from memlint.formats.fields import interpolated
from memlint.formats.keys import FieldChange, Written
from memlint.run import Run
from memlint.source.document import Path

Place = tuple[str, Path]


def axolotl_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the files that set them; None where a change cannot be expressed."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    started = started_fsdp(changes) if changes.get("parallelism.engine") == "fsdp" else {}
    if started and any(config.get(key) for key in _NOT_UNDER_NEW_FSDP):
        return None
    changes = {field: value for field, value in changes.items() if not (started and field in STARTED)}
    written = _written(config, run, changes)
    if written is None:
        return None
    own = _edits(config, place, {**written, **started})
    section = parsed.raw.get("deepspeed")
    follows = _RANKS if "parallelism.context_parallel_size" in changes else ""
    behind = {
        field: value for field, value in changes.items() if field != follows and _is_set_in_deepspeed(section, field)
    }
    more = _deepspeed(parsed, run, behind) if behind else ()
    return None if more is None else (*own, *more)


# With another engine, with whole weights that are not those of the checkpoint, or with 4 bits of another kind
# (loaders/model.py:1015, utils/model_shard_quant.py: NF4 with double quantisation).
_NOT_UNDER_NEW_FSDP = (
    *("deepspeed", "fsdp", "fsdp_config", "tensor_parallel_size", "deepcompile", "relora", "ple_cpu_offload"),
    *("reinit_weights", "bnb_config_kwargs"),
)
_RANKS = "parallelism.data_parallel_size"  # what is left of the cards for data parallelism


def _is_set_in_deepspeed(section: Any, field: str) -> bool:
    """Whether DeepSpeed's section says the field, alone or as well."""
    return not KEYS.can_set(field) or repeats(section, field)


# Keys that a file does not have are added in this order: what trains, sizes in the order of the plan, kernels.
_FIRST = (
    *("method.kind", "method.targets", "model.quantization.", "checkpointing.offload", "evaluation.enabled"),
    *("parallelism.fsdp.", "method.freeze_"),
)
_LAST = ("attention.", "loss.")


def _rank(field: str) -> int:
    order = (*_FIRST, "", *_LAST)
    found = next((start for start in (*_FIRST, *_LAST) if field.startswith(start)), "")
    return order.index(found)


def _written(config: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> Written | None:
    """`changes` as Axolotl's keys; None where a change has no key, or a template fills that key in."""
    written: dict[str, Any] = {}
    for field in sorted(filter(KEYS.can_set, changes), key=_rank):
        keys = KEYS.write(FieldChange(field, changes[field], changes, config, run))
        if keys is None or any(interpolated(config.get(key)) for key in keys):
            return None
        written |= keys
    return written


def _edits(config: Mapping[str, Any], place: Place, written: Written) -> tuple[Edit, ...]:
    path, pointer = place
    edits = []
    for key, value in written.items():
        steps = (*pointer, *key.split("."))
        if value is not None:
            edits.append(Edit(path, steps, "set", value))
        elif key in config:
            edits.append(Edit(path, steps, "remove"))
    return tuple(edits)


def _deepspeed(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the DeepSpeed configuration."""
    config, place = parsed.raw["config"], parsed.raw_places["config"]
    if changes.get("parallelism.engine") == "deepspeed":
        return _new_deepspeed(config, place, run, changes)
    if "deepspeed" not in parsed.raw_places:
        return _other_shipped_file(config, place, run, changes)
    return deepspeed_edits(parsed.raw.get("deepspeed"), parsed.raw_places["deepspeed"], changes)


def _new_deepspeed(
    config: Mapping[str, Any], place: Place, run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """`deepspeed:` takes a mapping as well as a file's name (utils/trainer.py:552), and one GPU (:564); tensor
    parallelism and DeepCompile open it as a file (validation.py:1287, :1321)."""
    blocked = ("deepspeed", "fsdp", "fsdp_config", "tensor_parallel_size", "deepcompile", "relora", "ple_cpu_offload")
    if any(config.get(key) for key in blocked) or run.parallelism.engine not in ("single", "ddp"):
        return None
    implied = ("parallelism.engine", *FOLLOW_DEEPSPEED)
    section = new_section({field: value for field, value in changes.items() if field not in implied})
    return None if section is None else _edits(config, place, {"deepspeed": section})


# Stage, and where optimizer states and parameters are, of the files that `axolotl fetch deepspeed_configs` writes.
_SHIPPED = {
    (1, "none", "none"): "zero1.json",
    (2, "cpu", "none"): "zero2.json",
    (3, "none", "none"): "zero3_bf16.json",
    (3, "cpu", "cpu"): "zero3_bf16_cpuoffload_all.json",
    (3, "none", "cpu"): "zero3_bf16_cpuoffload_params.json",
}


def _other_shipped_file(
    config: Mapping[str, Any], place: Place, run: Run, changes: Mapping[str, Any]
) -> tuple[Edit, ...] | None:
    """Another file of Axolotl's folder instead of the named one; None where no file has `changes`."""
    name = config.get("deepspeed")
    wanted = placed(run, changes)
    if not isinstance(name, str) or shipped_deepspeed(name) is None or wanted is None:
        return None
    other = _SHIPPED.get(wanted)
    if other is None or ("bf16" in other and run.precision.compute != "bfloat16"):
        return None
    return _edits(config, place, {"deepspeed": name[: name.rindex("/") + 1] + other})
