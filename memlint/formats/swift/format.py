"""The ms-swift format: its keys as the Trainer's arguments, then what only ms-swift has. Read in ms-swift 4.6.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import memlint.formats.trainer.format as trainer
from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Behaviour, Fields, as_bool, interpolated, root
from memlint.formats.key_releases import put_release
from memlint.formats.keys import read_start
from memlint.formats.swift.behaviour import FSDP_SINCE, PLANNING, SENT_IN_PARTS, entailed_by_word, shipped_deepspeed
from memlint.formats.swift.config import SwiftConfig, has_copy, shows_release_2
from memlint.formats.swift.issues import swift_issues
from memlint.formats.swift.keys import KEYS
from memlint.formats.swift.megatron import read_megatron
from memlint.formats.swift.recognise import NAME, SCHEMA, recognise
from memlint.formats.swift.releases import TAKES
from memlint.formats.swift.translate import (
    MODELLED_TUNERS,
    as_trainer,
    fsdp_file,
    named_fsdp,
    spreads_layers,
)
from memlint.formats.trainer_names import with_taken_releases
from memlint.run import Origin, Reading, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "yaml11"
_SPEECH = "the whole checkpoint is loaded, the talker too, unless ENABLE_AUDIO_OUTPUT is 0"


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    shown = _LAST_RELEASE_2 if shows_release_2(document.value) else ()
    context = with_taken_releases(context, NAME, TAKES, shown)
    config = SwiftConfig(root(document), KEYS, context)
    translated = as_trainer(config)
    read = trainer.read(translated, context)
    fields = read.fields
    _read_own_keys(fields, config)
    run = fields.run(NAME, document.path, read.related, "train")._replace(readings=tuple(_readings(config)))
    raw = {**read.raw, "config": document.value, "fsdp": named_fsdp(config)}
    issues = () if config.is_megatron else (*swift_issues(config), *read.fields.issues)
    return Parsed(NAME, (run,), issues, (document, *read.companions), raw, read.places)


_OFFLOADS = "parallelism.fsdp.cpu_offload"


def _readings(config: SwiftConfig) -> Iterator[Reading]:
    """An FSDP file that is not there may have the shards in host memory: its words may have `offload` among them."""
    if fsdp_file(config) and named_fsdp(config) is None:
        words = "with FSDP's shards in host memory", "with FSDP's shards on the cards"
        settled = "give it the FSDP file that it names, with `offload` among the words of `fsdp`"
        yield Reading("FSDP file not known", *words, ((_OFFLOADS, True),), ((_OFFLOADS, False),), settled=settled)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file, the command or the DeepSpeed file; None where ms-swift has no key for one."""
    from memlint.formats.swift.edits import swift_edits  # writes keys back: for fixes

    return swift_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "ms-swift" if has_copy(context) else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """What ms-swift's arguments refuse is not known of a copy of it."""
    return rule.startswith("SWF") and has_copy(context)


_LAST_RELEASE_2 = (2, 6)  # of the releases before 3.0


def _read_own_keys(fields: Fields, config: SwiftConfig) -> None:
    """What ms-swift itself decides, over what the Trainer's table read."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    put_release(fields, NAME, config.context)
    if NAME not in config.context.versions and config.is_release_2:
        fields.infer("stack.framework_version", _LAST_RELEASE_2, "a key that ms-swift has not had since 3.0")
    fields.behave(*PLANNING)
    KEYS.read(fields, config, config)
    _leave_words_out(fields)
    _read_what_starts_fsdp(fields, config)
    _put_entailed(fields, config)
    if config.holds_speech and not config.is_megatron:
        fields.infer("model.holds_speech", True, _SPEECH)
    if config.grows_segments:
        fields.infer("stack.expandable_segments", True, "PYTORCH_CUDA_ALLOC_CONF under `ENV`")
    read_start(fields, config.section.document, KEYS)
    tuner = config.raw("tuner_type")
    if tuner is not None and not interpolated(tuner) and str(tuner).lower() not in MODELLED_TUNERS:
        fields.unknown("method.kind", f"the tuner `{tuner}` is not modelled")
    if spreads_layers(config, fields):
        reason = "more visible cards than NPROC_PER_NODE says: each process spreads the layers over several"
        fields.infer("stack.unmodelled", "training with the layers spread over the cards (device_map)", reason)
        fields.infer("stack.unmodelled_adds", False, reason)
    if config.is_megatron:
        read_megatron(fields, config)
    if as_bool(config.section.value.get("use_ray")):
        fields.infer("stack.unmodelled", "placement by Ray", "`use_ray`")
        fields.infer("stack.unmodelled_adds", False, "`use_ray`")


def _read_what_starts_fsdp(fields: Fields, config: SwiftConfig) -> None:
    """Whether the file can have FSDP share 4-bit weights: `fsdp` takes JSON, and GRPO and GKD refuse version 1
    (4.6.0 rlhf_trainers/rollout_mixin.py:110)."""
    release = fields.get("stack.framework_version", None)
    older = bool(release) and release < FSDP_SINCE
    if not (older or config.is_megatron or config.writes_completions):
        source = "ms-swift 4.6.0 arguments/sft_args.py:284, arguments/base_args/quant_args.py:43"
        fields.behave(
            Behaviour("planning.starts_fsdp", 1, source),
            Behaviour("planning.stores_4_bits_in_half", "asked", source),
            Behaviour("planning.fsdp_keys", _FSDP_KEYS, source),
        )


# In words, for a plan that an older release of transformers decides.
_FSDP_KEYS = (
    '`fsdp: {{"fsdp": "full_shard auto_wrap{offload}", "fsdp_config": {{"fsdp_version": 1,'
    ' "cpu_ram_efficient_loading": true}}}}`'
)


def _put_entailed(fields: Fields, config: SwiftConfig) -> None:
    """New adapters have the dropout that the file says, a word says ZeRO's buckets, and an engine that is told of gets
    new weights in parts."""
    fields.put("planning.lora_dropout", config.number("lora_dropout") or 0.0, config.origin("lora_dropout"))
    if fields.get("rollout.generator", "") == "model":
        put_entailed(fields, lambda _: (SENT_IN_PARTS,), "ms-swift 4.6.0 rlhf_trainers/rollout_mixin.py:564")
    word = config.section.value.get("deepspeed")
    hidden = getattr(fields.get("model.architecture", None), "hidden_size", 0)
    if hidden and (word is None or (isinstance(word, str) and shipped_deepspeed(word) is not None)):
        buckets = [entailed_by_word(hidden, stage) for stage in (2, 3)]
        put_entailed(fields, lambda _: buckets, "ms-swift 4.6.0 config/zero2.json, zero3.json")


# Beside `all-linear`, what adds routers and embeddings (4.6.0 megatron/utils/utils.py:120, 123): no module's name.
_WORDS = frozenset({"all-router", "all-embedding"})
_ALL_LINEAR = "all-linear"


def _leave_words_out(fields: Fields) -> None:
    """LoRA's targets without these words, where others stand beside them: routers add next to nothing. The head beside
    `all-linear` (3.1.1 llm/train/tuner.py get_target_modules, which puts the layers' names in its place) is as little.
    """
    targets = fields.get("method.targets", ())
    named = tuple(one for one in targets if one not in _WORDS) if isinstance(targets, tuple) else ()
    if _ALL_LINEAR in named:
        named = (_ALL_LINEAR,)
    if named and named != targets:
        fields.put("method.targets", named, fields.origins["method.targets"])
