"""Compares the scripts that read a config: chooses one, finds how the others differ, and keys that none of them
reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.trainer.python.python_run import LOOP
from memlint.source.document import Document, Path, Span
from memlint.source.layout import Entry, Places

MAX_NAMED = 3  # keys in one message
_NOT_KNOWN = "unknown"
# Keys that matter to memory, in a run or in a config.
DECIDES = re.compile(
    r"model_name|dtype|attn_|flash_att|per_device_|batch_size|micro_batch|gradient_|grad_acc|bf16|fp16|optim|packing"
    r"|max_(?:seq|length|prompt|completion|new_tokens|source)|num_generations|generation_batch|eval_strategy"
    r"|use_(?:peft|lora|qlora|dora|unsloth|liger|flash|vllm)|lora_r(?:ank)?$|lora_target|load_in|load_[48]bit|bnb_"
    r"|deepspeed|fsdp|vllm_"
)


class FileReading(NamedTuple):
    """The runs that a script makes from a config. `values`: how many values of the file the first run has."""

    script: str
    runs: tuple[Document, ...]
    values: int


def chosen(readings: Sequence[FileReading], is_told: bool) -> FileReading:
    """The reading to use. `is_told`: commands name the scripts, and the first one is taken; else the one that uses the
    most values of the file."""
    return readings[0] if is_told else max(readings, key=lambda one: one.values)


def disagreements(of: FileReading, readings: Sequence[FileReading]) -> Iterator[str]:
    """Messages about the other scripts that read the file differently."""
    for other in readings:
        if other.script != of.script:
            text = _difference(of.runs[0], other.runs[0])
            if text:
                entry = other.runs[0].start.program.entry if other.runs[0].start is not None else other.script
                yield f"{entry} reads this file too, and {text}"


def _difference(one: Document, other: Document) -> str:
    first, second = _class(one), _class(other)
    if first != second:
        return f"trains with {_trainer(second)}, not with {_trainer(first)}"
    names = sorted(key for key in {*one.value, *other.value} if DECIDES.match(key))
    told = [f"`{name}` is {_word(other, name)} there and {_word(one, name)} here" for name in names]
    told = [text for name, text in zip(names, told) if _differ(_word(one, name), _word(other, name))]
    return f"disagrees: {', '.join(told[:MAX_NAMED])}" if told else ""


def _trainer(arguments_class: str) -> str:
    return "a loop of its own" if arguments_class == LOOP else f"`{arguments_class}`"


def _differ(one: str, other: str) -> bool:
    """Whether two values, in words, differ. An unknown one counts as equal."""
    return one != other and _NOT_KNOWN not in (one, other)


def _class(document: Document) -> str:
    return document.start.accepted.arguments_class if document.start is not None else ""


def _word(document: Document, name: str) -> str:
    if document.start is not None and (name,) in document.start.values.unknown:
        return _NOT_KNOWN
    return repr(document.value[name]) if name in document.value else "not given"


def unread(file: Document, runs: Sequence[Document], words: Set[str], handed_on: Set[str]) -> Mapping[str, Span]:
    """Keys of the file with names of training arguments that matter to memory, but that no script reads.

    `words`: all words of the scripts. `handed_on`: the names of what they hand on whole. Only mappings whose other
    values the script reads by name are searched: with `SFTConfig(**config["training"])` no key is named.
    """
    used = {span for document in runs for span in _spans(document)}
    found: dict[str, Span] = {}
    for path, value in _mappings(file.value, ()):
        leaves = {key: file.places.get((*path, key)) for key in value}
        by_name = [key for key, at in leaves.items() if at is not None and _bounds(at.value) in used]
        if not by_name or not all(str(key) in words for key in by_name) or not handed_on.isdisjoint(path[-1:]):
            continue
        for key, at in leaves.items():
            says = not isinstance(value[key], (dict, list)) and value[key] not in (None, False, "", 0)
            is_read = str(key) in words or f"{key}_enable" in words  # `model.gradient_checkpointing_enable()`
            if says and at is not None and not is_read and DECIDES.match(str(key)):
                found[".".join(map(str, (*path, key)))] = at.value
    return found


def _mappings(value: Any, path: Path) -> Iterator[tuple[Path, dict[Any, Any]]]:
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            yield from _mappings(inner, (*path, key))


def _spans(document: Document) -> Iterator[tuple[int, int]]:
    return (_bounds(document.places[path].value) for path in document.places if path)


def _bounds(span: Span) -> tuple[int, int]:
    return span.start, span.end


def with_places(document: Document, keys: Mapping[str, Span]) -> Document:
    """The run, with places added for keys of its file that it has no values for."""
    if not keys or not isinstance(document.places, Places) or document.start is None:
        return document
    *whole, below = document.places.root
    added: dict[Any, Entry] = {key: (at.start, at.end, at.start, at.end, False, None) for key, at in keys.items()}
    places = Places((*whole, {**below, **added}), document.places.lines)  # type: ignore[arg-type]
    own_file = document.start.own_file._replace(unread=tuple(keys))
    return document._replace(places=places, start=document.start._replace(own_file=own_file))
