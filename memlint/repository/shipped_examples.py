"""Recognises examples that a framework ships, in a repository that carries a copy of the framework; and whether the
copy's checks are the framework's.

A file is one of them if it has the contents that the framework gave it in some version, at the place that it has in
the framework's tree: `vendor/LLaMA-Factory/examples/train_lora/llama3_lora_sft.yaml`, unchanged. What it says is the
framework's, and mostly nobody runs it. A file that was changed, moved or added is the repository's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

# Written by tools/shipped_examples.py from the frameworks' histories.
DATA = os.path.join(os.path.dirname(__file__), "shipped_examples.json")
# The first folders of the examples' places in the frameworks' trees. The data are read where a path has one of them.
FOLDERS = frozenset(
    {
        *("applications", "benchmark", "benchmarks", "bing_bert", "BingBertSquad", "commands", "compression"),
        *("config_hub", "configs", "deepspeed", "deepspeed_configs", "examples", "finetune", "inference", "playground"),
        *("pretrain", "recipe", "recipes", "scripts", "slurm", "tests", "training", "trl", "verl"),
    }
)
# The files of a framework that refuse arguments (see refused.py of its format).
FILES_OF_CHECKS: Mapping[str, tuple[str, ...]] = {
    "verl": (
        *("verl/trainer/ppo/ray_trainer.py", "verl/utils/config.py", "verl/workers/config/actor.py"),
        *("verl/workers/fsdp_workers.py", "verl/workers/engine_workers.py", "verl/workers/engine/utils.py"),
        *("verl/trainer/fsdp_sft_trainer.py", "verl/trainer/sft_trainer.py"),
    )
}
_MARK_BYTES = 5  # among 20,000 marks, one file in 50 million has another's
_MOST_BYTES = 1024 * 1024


def framework_of(path: str) -> str:
    """The framework that ships the file at `path` as it is; "" for any other file, and for one that cannot be read."""
    places = tuple(_places(os.path.abspath(path).replace(os.sep, "/").split("/")))
    return _framework_at(places, _contents(path)) if places else ""


def has_checks_of(name: str, texts: Iterable[tuple[str, bytes]]) -> bool:
    """Whether all files among `texts`, (path, contents), that check the arguments of the framework `name` are as one of
    its versions has them. False where there is none."""
    ends = FILES_OF_CHECKS[name]
    found = [(place, data) for path, data in texts for place in ends if path.endswith(f"/{place}")]
    return bool(found) and all(_framework_at((place,), data) == name for place, data in found)


def _framework_at(places: Iterable[str], data: bytes) -> str:
    blob = _blob(data)
    return next((name for place in places if (name := _frameworks().get(mark(place, blob)))), "")


def mark(place: str, blob: str) -> str:
    """The mark of a file at `place` in its framework's tree, with the contents that git names `blob`."""
    from hashlib import blake2b  # late: few repositories have a folder with such a name

    return blake2b(f"{place}\0{blob}".encode("utf-8", "surrogateescape"), digest_size=_MARK_BYTES).hexdigest()


def _places(parts: list[str]) -> Iterator[str]:
    """The places that the file could have in a framework's tree."""
    for index, part in enumerate(parts[:-1]):
        if part in FOLDERS:
            yield "/".join(parts[index:])


def _contents(path: str) -> bytes:
    """The beginning of a file, as far as any example goes; nothing of one that cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return b""


def _blob(data: bytes) -> str:
    """What git names the contents, without carriage returns at the ends of lines."""
    from hashlib import sha1  # late, as above

    data = data.replace(b"\r\n", b"\n")
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=1)
def _frameworks() -> Mapping[str, str]:
    """The framework of each mark."""
    with open(DATA, encoding="utf-8") as stream:
        data = json.load(stream)
    return {one: name for name, each in data.items() for one in each["marks"].split()}
