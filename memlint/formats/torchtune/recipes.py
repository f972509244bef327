"""Which recipe of torchtune a file is for, which release, and on how many GPUs: as far as the command, the comments at
the top of the file, its name or its keys say so."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import Section, value_at
from memlint.formats.torchtune.recognise import COMPONENT
from memlint.source.document import Document

_COMMAND = re.compile(r"^#[^\n]*?\btune\s+run\s+((?:-[^\n]*?\s+)?)([A-Za-z_][\w./]*)\s+--config\s", re.MULTILINE)
_GPUS = re.compile(r"--nproc[_-]per[_-]node[= ](\d{1,3})\b")
_NODES = re.compile(r"--nnodes[= ](\d{1,3})\b")
_WORD = re.compile(r"[^a-z0-9]+")
# Keys that recipes for several GPUs alone read (0.6.1 recipes/*_distributed.py, main).
OF_SEVERAL = (
    *("fsdp_cpu_offload", "fsdp_reshard_after_forward", "custom_sharded_layers", "tensor_parallel_dim"),
    *("tensor_parallel_plan", "fsdp_sharding_strategy", "data_parallel_shard_dim", "context_parallel_dim"),
)
_STAGES = {"dpo": "dpo", "ppo": "ppo", "grpo": "grpo", "kd": "kd", "knowledge": "kd", "qat": "qat"}
Release = tuple[int, ...]
NEWEST: Release = (0, 6, 1)
_UNRELEASED: Release = (0, 7)


class Recipe(NamedTuple):
    """`stage`: sft, dpo, ppo, grpo, kd or qat. `is_distributed`: None where nobody says. `gpus`, `per_node`: of the
    command in the file's comments, 0 without one. `said_by`: what says it, in words."""

    name: str = ""
    stage: str = "sft"
    is_distributed: bool | None = None
    gpus: int = 0
    per_node: int = 0
    said_by: str = ""


def recipe_of(document: Document, sections: Sequence[Mapping[str, Any]], named: Section | None) -> Recipe:
    """The recipe by the command, else by the file's comments, its name and its keys."""
    file = named.document if named is not None else document
    start = document.start
    entry = start.program.entry if start is not None else ""
    if entry:
        return _of_name(posixpath.basename(entry).removesuffix(".py"), sections, "the command")
    comments = file.text if file.syntax == "yaml" else ""
    match = _COMMAND.search(comments)
    if match is not None:
        found = _of_name(posixpath.basename(match[2]).removesuffix(".py"), sections, "the comments of the file")
        each, nodes = _GPUS.search(match[1]), _NODES.search(match[1])
        per_node = int(each[1]) if each is not None else 1
        return found._replace(gpus=per_node * (int(nodes[1]) if nodes is not None else 1), per_node=per_node)
    return _of_name(posixpath.splitext(posixpath.basename(file.path))[0], sections, "the file's name")


def _of_name(name: str, sections: Sequence[Mapping[str, Any]], said_by: str) -> Recipe:
    words = [word for word in _WORD.split(name.lower()) if word]
    joined = "_".join(words)
    stage = next((stage for word, stage in _STAGES.items() if word in words), "") or _stage_of(sections)
    if "single_device" in joined:
        return Recipe(name, stage, False, said_by=said_by)
    if "distributed" in words or "fsdp" in words:
        return Recipe(name, stage, True, said_by=said_by)
    key = next((key for key in OF_SEVERAL if any(key in one for one in sections)), "")
    if key:
        return Recipe(name, stage, True, said_by=f"the key `{key}`")
    return Recipe(name, stage)


def _stage_of(sections: Sequence[Mapping[str, Any]]) -> str:
    """By sections that one kind of recipe alone has."""
    losses = [str(value_at(one, ("loss", COMPONENT)) or "") for one in sections]
    if any("teacher_model" in one for one in sections):
        return "kd"
    if any("ppo_epochs" in one or "policy_model" in one for one in sections):
        return "ppo"
    if any(word in loss for loss in losses for word in ("DPOLoss", "SimPOLoss", "RSOLoss")):
        return "dpo"
    return "qat" if any("quantizer" in one for one in sections) else "sft"


def release_of(sections: Sequence[Mapping[str, Any]], context: Context) -> Release:
    """The release that somebody states; else what the components tell: `torchtune.utils` had them until 0.2, and the
    loss that takes the head is of the main branch alone."""
    stated = context.versions.get("torchtune", ())
    if stated:
        return stated
    loss = next((str(found) for one in sections if (found := value_at(one, ("loss", COMPONENT)))), "")
    if loss.endswith(".LinearCrossEntropyLoss"):
        return _UNRELEASED
    named = (str(value_at(one, (part, COMPONENT)) or "") for one in sections for part in ("checkpointer", "profiler"))
    return (0, 2) if any(name.startswith("torchtune.utils.") for name in named) else NEWEST
