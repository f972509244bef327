"""The mapping that `memlint map --format keys` prints: a `keys:` section to paste into memlint.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memlint.formats.fields import as_number
from memlint.report.terminal import one_line
from memlint.repository.declared_keys import key_of
from memlint.source import load
from memlint.source.document import Document, Path, Start

_CONFIGS = (".yaml", ".yml", ".json", ".toml")


def keys_mapping(runs: list[tuple[Document, Any]]) -> str:
    """One entry as YAML for each run that a script takes from a config; "" if there is none.

    `runs`: (document of the run, dtype that its weights load in).
    """
    entries = ["\n".join(_entry(document, dtype)) for document, dtype in runs if document.path.endswith(_CONFIGS)]
    return "keys:\n" + "\n".join(entries) if entries else ""


def _entry(document: Document, dtype: Any) -> Iterator[str]:
    start = document.start
    assert start is not None  # of a script's run
    yield f"  - files: [{json.dumps(document.path)}]"
    yield f"    class: {start.accepted.arguments_class}  # {one_line(start.program.entry)}"
    unmodelled = start.program.unmodelled or start.program.freezes
    if unmodelled:
        yield f"    unmodelled: {json.dumps(unmodelled)}"
    yield "    arguments:"
    unknown = {str(path[0]): reason for path, reason in start.values.unknown.items()}
    own = _own_keys(document)
    for name, value in document.value.items():
        yield _line(name, value, own.get(name, ""), start, unknown.get(name, ""))
    for name in unknown.keys() - document.value.keys():
        yield _line(name, None, "", start, unknown[name])
    if (
        not start.program.loads_model
        and not {"dtype", "torch_dtype"} & document.value.keys()
        and isinstance(dtype, str)
    ):
        yield f"      dtype: {{value: {dtype}}}  # what the trainer loads a model's name in"


def _line(name: str, value: Any, own: str, start: Start, unknown: str) -> str:
    if unknown:
        return f"      {name}: {{unknown: {json.dumps(one_line(unknown))}}}"
    if own:
        return f"      {name}: {_text(own)}"
    where = start.values.written_at.get(name, "the script computes it")
    return f"      {name}: {{value: {json.dumps(value)}}}  # {one_line(where)}"


def _text(key: str) -> str:
    return key if key.replace(".", "").replace("_", "").isalnum() and not key.isdecimal() else json.dumps(key)


def _own_keys(document: Document) -> dict[str, str]:
    """Argument -> the file's key, for each argument that takes the value of a key unchanged."""
    (file,) = load(document.text.encode("utf-8", "surrogatepass"), document.path)[:1]
    at = {(place.value.start, place.value.end): path for path, place in file.places.items() if path}
    found: dict[str, str] = {}
    for name, value in document.value.items():
        span = document.places[(name,)].value
        path = at.get((span.start, span.end))
        if path is not None and _same(_at(file.value, path), value):
            found[name] = key_of(path)
    return found


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _same(written: Any, used: Any) -> bool:
    """Whether an argument has the file's value. A number may be text in the file: PyYAML reads "2e-5" as such."""
    if isinstance(written, str) and isinstance(used, (int, float)) and not isinstance(used, bool):
        return as_number(written) == used
    return type(written) is type(used) and bool(written == used)
