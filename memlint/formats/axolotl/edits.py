"""How an Axolotl file (with the DeepSpeed file behind it) would say a change of neutral fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.axolotl.families import NAMED_WITHOUT_CHECKPOINTING
from memlint.formats.axolotl.method_edits import METHOD_PARTS, new_deepspeed, shipped_deepspeed_edits
from memlint.formats.base import Parsed
from memlint.formats.deepspeed.edits import deepspeed_edits, says
from memlint.formats.written_values import flag, whole, word
from memlint.run import Run
from memlint.source.document import Path

_LIGER = "axolotl.integrations.liger.LigerPlugin"
_CUT = "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"
_LEGACY = (
    "xformers_attention",
    "sage_attention",
    "flex_attention",
    "flash_attention",
    "sdp_attention",
    "eager_attention",
)


# neutral field -> the key that says it, and how (None: it cannot be said)
_KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "batch.micro_batch_size": ("micro_batch_size", whole),
    "batch.gradient_accumulation_steps": ("gradient_accumulation_steps", whole),
    "evaluation.batch_size": ("eval_batch_size", whole),
    "checkpointing.mode": ("gradient_checkpointing", {"full": True, "none": False}.get),
    "optimizer.name": ("optimizer", word),
    "optimizer.max_grad_norm": ("max_grad_norm", lambda value: value),
    "sequence.length": ("sequence_len", whole),
    "method.rank": ("lora_r", whole),
    "method.alpha": ("lora_alpha", whole),
    "saving.only_model": ("save_only_model", flag),
}
_ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def axolotl_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file that says each; None where one of them cannot be said."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    edits: list[Edit] = []
    rest = dict(changes)
    flags = () < run.stack.framework_version < _SINCE_ATTENTION
    parts = (*METHOD_PARTS, _plain, _flagged if flags else _attention, _fused_loss)
    for part in parts:
        made = part(config, place, rest)
        if made is None:
            return None
        edits += made
    behind = {**rest, **{field: value for field, value in changes.items() if _twice(parsed, field)}}
    if not behind:
        return tuple(edits)
    if behind.get("parallelism.engine") == "deepspeed":
        new = new_deepspeed(config, place, run, behind)
        return None if new is None else (*edits, *new)
    if "deepspeed" not in parsed.raw_places:
        shipped = shipped_deepspeed_edits(config, place, run, behind)
        return None if shipped is None else (*edits, *shipped)
    more = deepspeed_edits(parsed.raw.get("deepspeed"), parsed.raw_places["deepspeed"], behind)
    return None if more is None else (*edits, *more)


def _plain(config: Mapping[str, Any], place: tuple[str, Path], rest: dict[str, Any]) -> list[Edit] | None:
    """Changes that one key says; taken from `rest`."""
    path, pointer = place
    edits = []
    for field in [field for field in rest if field in _KEYS]:
        key, written = _KEYS[field]
        said = written(rest.pop(field))
        if said is None or _is_bound(config, key) or _is_placeholder(config.get(key)):
            return None
        edits.append(Edit(path, (*pointer, key), "set", said))
    return edits


# What needs a key as it is: another one that Axolotl wants beside it, or in its place.
_BOUND = {
    "gradient_accumulation_steps": ("batch_size",),
    "gradient_checkpointing": ("activation_offloading", "selective_checkpointing"),
}


def _is_bound(config: Mapping[str, Any], key: str) -> bool:
    named = NAMED_WITHOUT_CHECKPOINTING in str(config.get("base_model")).lower()  # validation.py:1569
    refused = key == "gradient_checkpointing" and named
    return refused or any(config.get(other) for other in _BOUND.get(key, ()))


# utils/schemas/config.py: `attn_implementation` since 0.12; flags alone before.
_SINCE_ATTENTION = (0, 12)
_FLAG = {
    "eager": "eager_attention",
    "sdpa": "sdp_attention",
    "flash_attention_2": "flash_attention",
    "flex_attention": "flex_attention",
}


def _flagged(config: Mapping[str, Any], place: tuple[str, Path], rest: dict[str, Any]) -> list[Edit] | None:
    """The flag of an older release, in place of the others."""
    wanted = rest.pop("attention.implementation", None)
    if wanted is None:
        return []
    if wanted not in _FLAG:
        return None
    return _instead(config, place, _FLAG[wanted], True)


def _attention(config: Mapping[str, Any], place: tuple[str, Path], rest: dict[str, Any]) -> list[Edit] | None:
    """`attn_implementation`, in place of the flags of older releases, which may not stand beside it."""
    wanted = rest.pop("attention.implementation", None)
    if wanted is None:
        return []
    if wanted not in _ATTENTIONS:
        return None
    return _instead(config, place, "attn_implementation", wanted)


def _instead(config: Mapping[str, Any], place: tuple[str, Path], key: str, value: Any) -> list[Edit]:
    """`key` said, and the flags that may not stand beside it gone."""
    path, pointer = place
    gone = [Edit(path, (*pointer, other), "remove") for other in _LEGACY if other in config and other != key]
    return [Edit(path, (*pointer, key), "set", value), *gone]


def _fused_loss(config: Mapping[str, Any], place: tuple[str, Path], rest: dict[str, Any]) -> list[Edit] | None:
    """A fused loss is a plug-in and its key; Axolotl takes one cross entropy alone."""
    kernels = rest.pop("loss.liger_kernels", None)
    kind = rest.pop("loss.kind", None)
    if kind is None and kernels is None:
        return []
    if kernels or kind not in ("liger", "cut") or config.get("rl") or config.get("reward_model"):
        return None
    path, pointer = place
    plugin, key = (_LIGER, "liger_fused_linear_cross_entropy") if kind == "liger" else (_CUT, "cut_cross_entropy")
    plugins = config.get("plugins")
    known = plugins if isinstance(plugins, list) else []
    if plugins is not None and not isinstance(plugins, list):
        return None
    edits = [Edit(path, (*pointer, key), "set", True), *_other_losses(config, place, key, known)]
    if plugin not in known:
        edits.append(Edit(path, (*pointer, "plugins"), "set", [*known, plugin]))
    return edits


_LOSSES = ("cut_cross_entropy", "chunked_cross_entropy", "liger_cross_entropy", "liger_fused_linear_cross_entropy")


def _other_losses(config: Mapping[str, Any], place: tuple[str, Path], kept: str, plugins: list[Any]) -> list[Edit]:
    """The other cross entropies off: that of a plug-in that is there is on where nothing is said."""
    path, pointer = place
    said = [key for key in _LOSSES if key != kept and config.get(key)]
    if _CUT in plugins and kept != "cut_cross_entropy":
        return [Edit(path, (*pointer, key), "set", False) for key in dict.fromkeys((*said, "cut_cross_entropy"))]
    return [Edit(path, (*pointer, key), "set", False) for key in said]


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, str) and "$" in value


def _twice(parsed: Parsed, field: str) -> bool:
    """Whether the DeepSpeed file repeats this value as a number, which transformers wants to be equal."""
    section = parsed.raw.get("deepspeed")
    if not says(field) or not isinstance(section, dict):
        return False
    keys = {
        "batch.micro_batch_size": "train_micro_batch_size_per_gpu",
        "batch.gradient_accumulation_steps": "gradient_accumulation_steps",
        "optimizer.max_grad_norm": "gradient_clipping",
    }
    present = section.get(keys.get(field, ""))
    return isinstance(present, (int, float)) and not isinstance(present, bool)
