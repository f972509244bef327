"""Finds the repository's accelerate launch files, for a config that no command in the repository launches."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from memlint.repository.launch.pages import CONFIGS, MOST_FILES, TrackedNames, by_distance
from memlint.source.document import Document

MOST_BYTES = 64 * 1024
_LAUNCH_KEYS = ("distributed_type", "compute_environment")  # a launch file has at least one of them
_LAUNCH_NAMES = ("accelerate", "deepspeed", "zero", "fsdp", "ddp", "multi", "launch")  # usual parts of its name
_SHARDING_TYPES = ("DEEPSPEED", "FSDP", "MEGATRON_LM")
_PART = r"[a-z]+[0-9]*|[0-9]+[a-z]*"


def launch_files(
    tracked: TrackedNames, has_word: Callable[[str, tuple[str, ...], int], bool], load: Callable[[str], Document]
) -> tuple[str, ...]:
    """Names of accelerate's launch files, those that shard the model first. `has_word(path, words, most)`: whether a
    file has at most `most` bytes and one of the words."""
    found = []
    for name in _configs(tracked):
        path = posixpath.join(tracked.root, name)
        try:
            if not has_word(path, _LAUNCH_KEYS, MOST_BYTES):
                continue
            document = load(path)
        except OSError:
            continue
        from memlint.formats.accelerate.recognise import recognise  # where a file may be a launch file

        if recognise(document).confidence == "certain":
            kind = str(document.value.get("distributed_type")).upper()
            found.append((kind not in _SHARDING_TYPES, name))
    return tuple(name for _, name in sorted(found))


def _configs(tracked: TrackedNames) -> list[str]:
    names = (name for name in tracked.names if name.endswith(CONFIGS))
    return sorted(names, key=lambda name: (not _may_be_one(name), name.count("/"), name))[:MOST_FILES]


def _may_be_one(name: str) -> bool:
    return any(word in name.lower() for word in _LAUNCH_NAMES)


def likeliest(files: Sequence[str], config: str, used: Mapping[str, int]) -> list[str]:
    """Launch files, likeliest for a config first: by common words of the names, then by use (`used`), then by distance.

    For `configs/dpo/a100_80gb.yaml`, `configs/a100_80gb/zero3.yaml` comes before a file below `a100_40gb`.
    """
    if not files:
        return []
    own_words = _words(config)
    near = by_distance(files, config, str)
    return sorted(near, key=lambda name: (-len(_words(name) & own_words), -used.get(name, 0)))


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(_PART, name.lower()))
