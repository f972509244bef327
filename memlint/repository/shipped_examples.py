"""Recognises examples that a framework ships, in a repository that carries a copy of the framework.

A file is one of them if it has the contents that the framework gave it in some version, at the place that it has in
the framework's tree: `vendor/LLaMA-Factory/examples/train_lora/llama3_lora_sft.yaml`, unchanged. What it says is the
framework's, and mostly nobody runs it. A file that was changed, moved or added is the repository's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
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
_MARK_BYTES = 5  # among 20,000 marks, one file in 50 million has another's
_MOST_BYTES = 1024 * 1024


def framework_of(path: str) -> str:
    """The framework that ships the file at `path` as it is; "" for any other file, and for one that cannot be read."""
    places = tuple(_places(os.path.abspath(path).replace(os.sep, "/").split("/")))
    blob = _blob(path) if places else ""
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


def _blob(path: str) -> str:
    """What git names the contents of the file, without carriage returns at the ends of lines; "" without contents."""
    from hashlib import sha1  # late, as above

    try:
        with open(path, "rb") as stream:
            data = stream.read(_MOST_BYTES).replace(b"\r\n", b"\n")
    except OSError:
        return ""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=1)
def _frameworks() -> Mapping[str, str]:
    """The framework of each mark."""
    with open(DATA, encoding="utf-8") as stream:
        data = json.load(stream)
    return {one: name for name, each in data.items() for one in each["marks"].split()}
