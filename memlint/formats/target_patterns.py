"""Targets of adapters that are a pattern: peft compares one string with whole names of modules (re.fullmatch)."""

from __future__ import annotations

import re
from typing import Any

from memlint.formats.fields import Fields, as_words
from memlint.formats.name_patterns import bounded_pattern, repeats
from memlint.identity_cache import IdentityCache
from memlint.run import Origin

_PATTERN_SIGNS = re.compile(r"[*+?()\[\]{}|\\^$]")  # signs that no module's name has


def put_targets(fields: Fields, value: Any, origin: Origin, architecture: Any) -> None:
    """`method.targets` from one string or a list, where a lone string may be a pattern (peft 0.21.2
    tuners/tuners_utils.py:2370; TRL hands over a list of one as its string, trl 1.16 trainer/model_config.py:177)."""
    lone = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(lone, str) and _PATTERN_SIGNS.search(lone):
        put_pattern(fields, lone, origin, architecture)
    else:
        fields.put("method.targets", as_words(value), origin)


def put_pattern(fields: Fields, pattern: str, origin: Origin, architecture: Any) -> None:
    """`method.targets` from a pattern, which is taken to name layers of the language model alone."""
    found = targets_matching(pattern, architecture)
    if found is None:
        fields.unknown("method.targets", f"the pattern `{pattern[:60]}` is not evaluated")
        return
    fields.put("method.targets", found, origin)
    for part in ("vision_tower", "multi_modal_projector"):
        fields.infer(f"method.freeze_{part}", True, "the pattern is taken to name the language model's layers")


def ranks_by_module(value: Any) -> tuple[tuple[str, int], ...]:
    """`rank_pattern` of LoraConfig: a rank by a module's name, or by the end of one; other values are left out."""
    ranks = value.items() if isinstance(value, dict) else ()
    return tuple((str(name), rank) for name, rank in ranks if isinstance(rank, int))


# Idefics and SmolVLM call it `text_model` (models/smolvlm/modeling_smolvlm.py:445).
_STACKS = ("model.layers", "model.language_model.layers", "language_model.model.layers", "model.text_model.layers")


_MATCHING = IdentityCache(16)  # a file is read again with each plan that is written


def targets_matching(pattern: str, architecture: Any) -> tuple[str, ...] | None:
    """The modules of decoder layers whose full name the pattern matches; None where that is not known, or where layers
    with the same modules do not match alike."""
    known: dict[str, tuple[str, ...] | None] = _MATCHING.get(architecture) or _MATCHING.put({}, architecture)
    if pattern not in known:
        known[pattern] = _matched(pattern, architecture)
    return known[pattern]


def _matched(pattern: str, architecture: Any) -> tuple[str, ...] | None:
    kinds = getattr(architecture, "layer_types", ())
    compiled = bounded_pattern(pattern)
    if compiled is None or not kinds:
        return None
    modules = [tuple(sorted({weight.name.rpartition(".")[0] for weight in kind.weights})) for kind in kinds]
    layers = {
        index: modules[architecture.layer_type_ids[index]]
        for index in _layers_to_match(pattern, architecture.layer_type_ids)
    }
    matched = {index: _matched_names(compiled, names, index) for index, names in layers.items()}
    found = frozenset(name for names in matched.values() for name in names)
    alike = all(found.intersection(names) == set(matched[index]) for index, names in layers.items())
    return tuple(sorted(found)) if found and alike else None


# With so few, every layer is asked; with more, which may take their time, the first and the last of each kind.
_FEW_REPEATS = 2


def _layers_to_match(pattern: str, kinds: tuple[int, ...]) -> list[int]:
    if repeats(pattern) <= _FEW_REPEATS:
        return list(range(len(kinds)))
    first = {kind: index for index, kind in reversed(tuple(enumerate(kinds)))}
    last = {kind: index for index, kind in enumerate(kinds)}
    return sorted({*first.values(), *last.values()})


def _matched_names(compiled: re.Pattern[str], names: tuple[str, ...], layer: int) -> tuple[str, ...]:
    return tuple(name for name in names if any(compiled.fullmatch(f"{stack}.{layer}.{name}") for stack in _STACKS))
