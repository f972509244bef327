"""Helpers of the LLaMA-Factory tests: text in, `Parsed` out, with models and files made up here."""

from __future__ import annotations

import copy
import json
from typing import Any

from memlint.architectures.model import Architecture, Resolution, StoredWeights, Tower
from memlint.findings import Edit
from memlint.formats.base import Context, MissingFile, Parsed
from memlint.formats.llamafactory import format as llamafactory
from memlint.run import UNKNOWN, Origin, Run, get
from memlint.source import in_dialect, load
from memlint.source.document import Document

BASE = "model_name_or_path: llama\nstage: sft\ndo_train: true\nfinetuning_type: {kind}\ndataset: d\ntemplate: llama3\n"


def architecture(family: str, **parts: Any) -> Architecture:
    return Architecture(family, "Model", 64, 256, (), (), (), **parts)


V1_BASE = "model: qwen3\nmodel_class: llm\ntrain_dataset: d.yaml\nmicro_batch_size: 2\n"

MODELS = {
    "llama": architecture("llama"),
    "fp32": architecture("llama", dtype="float32"),
    "gemma2": architecture("gemma2"),
    "gemma3n": architecture("gemma3n"),
    "granite": architecture("granite"),
    "opt": architecture("opt"),
    "qwen3": architecture("qwen3"),
    "gpt_oss": architecture("gpt_oss", stored=StoredWeights("mxfp4", 4.25)),
    "gptq": architecture("llama", stored=StoredWeights("gptq", 4, group_size=128)),
    "vlm": architecture("qwen2_vl", towers=(Tower("vision", 32, 2, 2, 64),)),
    "omni": architecture("qwen2_5_omni", towers=(Tower("vision", 32, 2, 2, 64),)),
    "foreign-vlm": architecture("no_such_vlm", towers=(Tower("vision", 32, 2, 2, 64),)),
}


def find_model(name: str, from_path: str) -> Resolution:
    found = MODELS.get(name)
    return Resolution(name, "catalog" if found else "unknown", found, reason="" if found else "no such model")


def document(text: str, path: str = "/repo/train.yaml") -> Document:
    read = load(text.encode(), path)[0]
    return in_dialect(read, "omegaconf") if read.syntax == "yaml" else read


def context(files: dict[str, str] | None = None, gpus: int | None = None, **parts: Any) -> Context:
    def read(reference: str, from_path: str) -> Document | MissingFile:
        text = (files or {}).get(reference)
        return (
            MissingFile("missing", f"no file `{reference}`", (reference,))
            if text is None
            else document(text, reference)
        )

    count: Any = UNKNOWN if gpus is None else gpus
    return Context(read, find_model, gpus=count, gpus_origin=Origin("command_line"), **parts)


def parse(text: str, files: dict[str, str] | None = None, gpus: int | None = None, **parts: Any) -> Parsed:
    return llamafactory.parse(document(text), context(files, gpus, **parts))


def run_of(keys: str, kind: str = "lora", gpus: int | None = None, **parts: Any) -> Run:
    return parse(BASE.format(kind=kind) + keys, gpus=gpus, **parts).runs[0]


def field(keys: str, name: str, kind: str = "lora", **parts: Any) -> Any:
    return get(run_of(keys, kind, **parts), name)


def messages(parsed: Parsed, code: str) -> list[str]:
    return [issue.message for issue in parsed.issues if issue.code == code]


def applied(value: dict[str, Any], edits: tuple[Edit, ...]) -> dict[str, Any]:
    """The mapping after the edits (the text is another room's business)."""
    changed = copy.deepcopy(value)
    for edit in edits:
        node: Any = changed
        for step in edit.pointer[:-1]:
            node = node[step]
        if edit.action == "remove":
            del node[edit.pointer[-1]]
        elif edit.action == "rename":
            node[edit.value] = node.pop(edit.pointer[-1])
        else:
            assert edit.action == "set"
            node[edit.pointer[-1]] = edit.value
    return changed


def edited(text: str, changes: dict[str, Any], files: dict[str, str] | None = None, gpus: int = 8) -> Parsed | None:
    files = files or {}
    given = document(text)
    parsed = llamafactory.parse(given, context(files, gpus))
    edits = llamafactory.edits(parsed, parsed.runs[0], changes)
    if edits is None:
        return None
    own = tuple(edit for edit in edits if edit.path == given.path)
    others = {
        name: json.dumps(applied(json.loads(content), tuple(edit for edit in edits if edit.path == name)))
        for name, content in files.items()
    }
    return llamafactory.parse(given._replace(value=applied(given.value, own)), context(others, gpus))
