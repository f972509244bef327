"""The commands of a task of dstack, with the GPUs that it asks for (dstack 0.20 docs, reference/dstack.yml/task and
"Environment variables"): a `.dstack.yml` with `type: task`, `commands`, `nodes` and `resources: {gpu: A100:80GB:8}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memlint.repository.scripts.part import Part, block, exported, named_at
from memlint.repository.scripts.slurm import Job
from memlint.source.document import Document
from memlint.source.shell.text import literal

_MEMORY = re.compile(r"\d+(?:\.\d+)?\s*GB(?:\.\.)?", re.IGNORECASE)
_COUNT = re.compile(r"\d{1,3}")


def is_task(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "task" and isinstance(value.get("commands"), list)


def commands_of_task(document: Document) -> Part:
    """The task's commands as one script, which each of its nodes runs."""
    task = document.value
    nodes = task.get("nodes") if isinstance(task.get("nodes"), int) else 1
    card, each = _gpus(task.get("resources"))
    job = Job(nodes, each, nodes, 1, **named_at(document, ("resources", "gpu"), card)) if each else None
    told: dict[str, Any] = {}
    if each:
        told = {"DSTACK_NODES_NUM": nodes, "DSTACK_GPUS_PER_NODE": each, "DSTACK_GPUS_NUM": nodes * each}
    text = exported({**_environment(task.get("env")), **told})
    for index, command in enumerate(task["commands"]):
        if isinstance(command, str):
            text = (*text, *block(document, ("commands", index), command), *literal("\n"))
    return Part(text, job)


def _gpus(resources: Any) -> tuple[str, int]:
    """(card, number on each node) of `gpu: A100:80GB:8`, `gpu: 24GB`, `gpu: {name: A100, memory: 80GB, count: 8}`.

    "" and 0 for what a task leaves open: `A100,H100`, `1..8`.
    """
    asked = resources.get("gpu") if isinstance(resources, dict) else None
    if isinstance(asked, dict):
        asked = ":".join(str(asked[key]) for key in ("name", "memory", "count") if key in asked)
    if not isinstance(asked, (str, int)):
        return "", 0
    words = [word.strip() for word in str(asked).split(":")]
    numbers = [word for word in words if _COUNT.fullmatch(word)]
    is_open = any(".." in word for word in words if not _MEMORY.fullmatch(word))
    names = [word for word in words if not (_COUNT.fullmatch(word) or _MEMORY.fullmatch(word) or ".." in word)]
    memory = next((word for word in words if _MEMORY.fullmatch(word)), "")
    card = "" if len(names) != 1 or "," in names[0] else f"{names[0]}-{memory}" if memory else names[0]
    return card, 0 if is_open else int(numbers[-1]) if numbers else 1


def _environment(value: Any) -> Mapping[str, Any]:
    """`env:` as a mapping, or as `NAME=value` words; a bare name is the caller's."""
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if isinstance(key, str) and key.isidentifier()}
    words = [one.partition("=") for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return {name: text for name, joined, text in words if joined and name.isidentifier()}
