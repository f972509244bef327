"""Derive schemas/axolotl.json from Axolotl's sources, which are read and never run.

    python tools/axolotl_schema.py CHECKOUT RELEASE... > schemas/axolotl.json

CHECKOUT is a git checkout with tags: every tag since v0.5.0, the first with pydantic models, is read, so that a key's
first and last release are known. Each RELEASE is a later one, unpacked (its VERSION file names it), the newest last.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from axolotl_overlay import (
    ALIASES,
    DEPRECATED,
    EXTRA,
    FSDP_GONE,
    LIMITS,
    MODEL_NOTES,
    OVERRIDES,
    REMOVED,
    REMOVED_VALUES,
    RENAMED,
    SCHEDULERS,
    TYPES,
    VALUE_ALIASES,
)
from llamafactory_schema import dump, git
from pydantic_models import ModelField, Sources, config_of, fields, members, read
from pydantic_schema import SCALARS, Compiler, bounded, merged_union, once
from schema_parts import SCHEMAS, Schema

TOP = "AxolotlInputConfig"
FIRST = "0.5.0"
DATASETS = ("SFTDataset", "DPODataset", "KTODataset", "StepwiseSupervisedDataset", "SyntheticDataset")
DATASET_TYPES = ("UserDefinedPrompterType", "UserDefinedDPOType", "UserDefinedKTOType")
FILES = re.compile(r"src/axolotl/(utils/schemas/|utils/config/models/input/v0|integrations/).*\.py")


class Release(NamedTuple):
    version: str
    sources: Sources
    plugins: dict[str, str]  # a class of plugin arguments -> the plugin's name


def releases(checkout: str, later: Sequence[Path]) -> list[Release]:
    tags = git(checkout, "tag", "--sort=v:refname").split()
    old = [tag for tag in tags if numbers(tag) >= numbers(FIRST)]
    found = [release(tag.removeprefix("v"), texts_of_tag(checkout, tag)) for tag in old]
    return [*found, *(release((one / "VERSION").read_text().strip(), texts_of_folder(one)) for one in later)]


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def texts_of_tag(checkout: str, tag: str) -> list[tuple[str, str]]:
    names = git(checkout, "ls-tree", "-r", "--name-only", tag).splitlines()
    return [(name, git(checkout, "show", f"{tag}:{name}")) for name in names if FILES.fullmatch(name)]


def texts_of_folder(folder: Path) -> list[tuple[str, str]]:
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.py"))}
    return [(name, path.read_text(encoding="utf-8")) for name, path in paths.items() if FILES.fullmatch(name)]


def release(version: str, texts: list[tuple[str, str]]) -> Release:
    models = [text for name, text in texts if "/integrations/" not in name or name.endswith("args.py")]
    found = [pair for name, text in texts if "/integrations/" in name for pair in plugins(name, text)]
    return Release(version, read(models), dict(found))


def plugins(name: str, text: str) -> Iterator[tuple[str, str]]:
    """What `get_input_args` of the plugins in a file name, and how `plugins` names the plugin."""
    package = name.removeprefix("src/").split("/")[:3]
    for node in (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "get_input_args":
                for word in ast.walk(method):
                    if isinstance(word, ast.Return) and isinstance(word.value, ast.Constant) and word.value.value:
                        yield str(word.value.value).rpartition(".")[2], ".".join([*package, node.name])


def compiler_of(sources: Sources) -> Compiler:
    groups = {**dict.fromkeys(DATASETS, "Dataset"), **dict.fromkeys(DATASET_TYPES, "DatasetType")}
    return Compiler(sources, TYPES, groups)


def schema_of(field: ModelField, compiler: Compiler) -> Schema:
    if field.name in OVERRIDES:
        schema: Schema = json.loads(json.dumps(OVERRIDES[field.name]))
    else:
        schema = compiler.of(field.annotation)
        bounds = {**field.bounds, **LIMITS.get(field.name, {})}
        schema = bounded(schema, bounds)
    if field.default is not ... and field.default is not None:
        schema["default"] = field.default
    return schema


Found = list[tuple[str, dict[str, ModelField], Sources]]


def model_history(all_releases: list[Release], names: Iterable[str]) -> Found:
    """(version, the fields of the models `names`, sources), oldest first, from the first release that has one."""
    found = [
        (one.version, {key: field for name in names for key, field in fields(name, one.sources).items()}, one.sources)
        for one in all_releases
    ]
    first = next((index for index, (_, keys, _) in enumerate(found) if keys), len(found))
    return found[first:]


def properties(found: Found, compiler: Compiler) -> dict[str, Schema]:
    """Every key that a release had, with the release it came and went with."""
    result: dict[str, Schema] = {}
    for name in dict.fromkeys(key for _, keys, _ in found for key in keys):
        present = [index for index, (_, keys, _) in enumerate(found) if name in keys]
        field = found[present[-1]][1][name]
        gone = present[-1] + 1 < len(found)
        schema = {} if gone else schema_of(field, compiler)
        if present[0]:
            schema["x-memlint-since"] = f"axolotl {found[present[0]][0]}"
        if gone:
            schema["x-memlint-removed-in"] = f"axolotl {found[present[-1] + 1][0]}"
        else:
            schema = with_removed_values(schema, removed_values(name, found))
        for alias in (name, *field.aliases):  # an alias may be the name of a field that an older release had
            since = {"x-memlint-since"} if alias in result and "x-memlint-since" not in result[alias] else set()
            result[alias] = {key: value for key, value in schema.items() if key not in since}
    return result


def removed_values(name: str, found: Found) -> dict[str, str]:
    """Values of a key that some release took and the newest does not -> the release that dropped them."""
    choices = []
    for version, keys, sources in found:
        schema = compiler_of(sources).of(keys[name].annotation) if name in keys else {}
        words = {word for part in schema.get("anyOf", [schema]) for word in part.get("enum", ())}
        choices.append((version, {word for word in words if isinstance(word, str)}))
    now = choices[-1][1]
    gone: dict[str, str] = {}
    for word in sorted(set().union(*(words for _, words in choices)) - now) if now else []:
        last = max(index for index, (_, words) in enumerate(choices) if word in words)
        gone[word] = f"axolotl {choices[last + 1][0]}"
    return gone


def with_removed_values(schema: Schema, gone: dict[str, str]) -> Schema:
    """Values that are gone are reported as such, and not as unknown ones; a message does not offer them."""
    for part in schema.get("anyOf", [schema]) if gone else ():
        if "enum" in part:
            words = [word for word in part["enum"] if word is not None and word not in gone]
            null = " or null" if None in part["enum"] else ""
            part["x-memlint-says"] = (f"one of {', '.join(words)}" if len(words) > 1 else words[0]) + null
            part["enum"] = list(dict.fromkeys([*part["enum"], *gone]))
    return {**schema, **({"x-memlint-removed-values": gone} if gone else {})}


def model_schema(keys: dict[str, Schema], kinds: Schema, required: Iterable[str] = ()) -> Schema:
    """A model's mapping, or a value of other kinds beside it. pydantic drops the keys that a model does not have."""
    needed = sorted(required)
    return {
        **kinds,
        "properties": dict(sorted(keys.items())),
        **({"required": needed} if needed else {}),
        "additionalProperties": False,
        "x-memlint-unknown": "warning",
    }


def merged(all_releases: list[Release], names: tuple[str, ...], compiler: Compiler) -> dict[str, Schema]:
    """The keys of several models: which of them reads an item depends on `rl`, and the others' keys are dropped."""
    result: dict[str, Schema] = {}
    for name in names:
        for key, schema in properties(model_history(all_releases, [name]), compiler).items():
            if key in result and name != "SyntheticDataset":  # its `path` and `type` are words that the others take
                schema = either(result[key], schema)
            result[key] = result[key] if key in result and name == "SyntheticDataset" else schema
    return result


def either(first: Schema, second: Schema) -> Schema:
    """What one of two models takes; the notes of the first count."""
    bare = [{key: value for key, value in one.items() if not note(key)} for one in (first, second)]
    notes = {key: value for key, value in first.items() if note(key)}
    return {**merged_union(once(bare)), **notes}


def note(key: str) -> bool:
    return key == "default" or (key.startswith("x-memlint-") and key not in ("x-memlint-says", "x-memlint-unknown"))


def definition(name: str, all_releases: list[Release], compiler: Compiler) -> Schema:
    several = {
        "Dataset": DATASETS,
        "DatasetType": DATASET_TYPES,
        "PretrainingDataset": ("PretrainingDataset", DATASETS[0]),
    }
    keys = merged(all_releases, several.get(name, (name,)), compiler)
    known_values(name, keys)
    for key, what in MODEL_NOTES[name].items() if name in MODEL_NOTES else ():
        keys[key]["x-memlint-note"] = what
    if name == "FSDPConfig":
        keys = with_prefix(keys)
    if name == "Dataset":
        keys["train_on_split"]["x-memlint-renamed-to"] = "split"
    needed = (
        [] if name in several else [field.name for field in fields(name, compiler.sources).values() if field.required]
    )
    schema = model_schema(keys, {}, needed)
    if name not in several and "forbid" in config_of(name, compiler.sources):
        schema["x-memlint-unknown"] = "error"
    return schema


def known_values(model: str, keys: dict[str, Schema]) -> None:
    """Values of a model's keys that are gone, and what others are called here."""
    for key, aliases in VALUE_ALIASES[model].items() if model in VALUE_ALIASES else ():
        keys[key] = {**keys[key], "x-memlint-value-aliases": aliases}
    for key, gone in REMOVED_VALUES[model].items() if model in REMOVED_VALUES else ():
        keys[key] = with_removed_values(keys[key], gone)


def with_prefix(keys: dict[str, Schema]) -> dict[str, Schema]:
    """fsdp_config: the prefix is taken off before the model sees a key (check_fsdp_config_kwargs_prefix)."""
    gone = {"x-memlint-removed-in": "axolotl 0.13.0", "x-memlint-note": "ignored"}
    both = {**dict.fromkeys(FSDP_GONE, gone), **keys}
    for name in ("fsdp_version", "version"):
        both[name].pop("x-memlint-since")  # the free mapping of older releases had it
    return {**both, **{f"fsdp_{name}": schema for name, schema in both.items() if not name.startswith("fsdp_")}}


def definitions(all_releases: list[Release], compiler: Compiler) -> dict[str, Schema]:
    """The models that the keys use, and those that these use."""
    found: dict[str, Schema] = {}
    while set(compiler.models) - set(found):
        for name in [name for name in compiler.models if name not in found]:
            found[name] = definition(name, all_releases, compiler)
    return {name: {**compiler.kinds(name), **schema} for name, schema in sorted(found.items())}


def top_level(all_releases: list[Release], compiler: Compiler) -> dict[str, Schema]:
    keys: dict[str, Schema] = {}
    for arguments, plugin in sorted({pair for one in all_releases for pair in one.plugins.items()}):
        found = model_history(all_releases, [arguments])
        for name, schema in properties(found, compiler).items():
            since = {} if found[0][0] == FIRST else {"x-memlint-since": f"axolotl {found[0][0]}"}
            keys[name] = {**since, **schema, "x-memlint-plugin": plugin}
    own = properties(model_history(all_releases, [TOP]), compiler)
    for name, schema in own.items():
        keys[name] = schema if name not in keys or "x-memlint-removed-in" not in schema else keys[name]
    keys["optimizer"] = optimizer(compiler, keys["optimizer"])
    keys["lr_scheduler"] = {"enum": [*SCHEDULERS, None], "default": "cosine"}
    compiler.models.setdefault("PretrainingDataset", [])
    known_values(TOP, keys)
    return {**keys, **EXTRA}


def optimizer(compiler: Compiler, schema: Schema) -> Schema:
    """The names of Axolotl, and those of transformers (schemas/trainer.json): TrainingArguments refuse others."""
    trainer = json.loads((SCHEMAS / "trainer.json").read_text(encoding="utf-8"))["properties"]["optim"]
    names = [word for part in trainer["anyOf"] for word in part.get("enum", ())]
    own = members(compiler.sources.classes["CustomSupportedOptimizers"])
    kept = {key: value for key, value in schema.items() if note(key)}
    return {"enum": [*dict.fromkeys([*names, *own]), None], **kept}


def renamed(keys: dict[str, Schema]) -> None:
    for name, (since, new, what) in RENAMED.items():
        schema = keys.setdefault(name, {})
        if since:
            schema["x-memlint-removed-in"] = f"axolotl {since}"
        schema["x-memlint-renamed-to"] = new
        if what:
            schema["x-memlint-note"] = what


def removed(keys: dict[str, Schema]) -> None:
    for name, (since, what) in REMOVED.items():
        keys[name] = {"x-memlint-removed-in": f"axolotl {since}", **({"x-memlint-note": what} if what else {})}
    for name, (since, new) in DEPRECATED.items():
        keys[name].update({"deprecated": True, "x-memlint-note": f"deprecated since axolotl {since}: use {new}"})


def build(checkout: str, later: Sequence[Path]) -> Schema:
    all_releases = releases(checkout, later)
    compiler = compiler_of(all_releases[-1].sources)
    keys = top_level(all_releases, compiler)
    renamed(keys)
    removed(keys)
    needed = [field.name for field in fields(TOP, compiler.sources).values() if field.required]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Axolotl",
        "description": f"Derived by tools/axolotl_schema.py from Axolotl {FIRST} to {all_releases[-1].version}.",
        **model_schema(keys, {"type": "object"}, needed),
        "x-memlint-aliases": ALIASES,
        "$defs": {**SCALARS, **definitions(all_releases, compiler)},
    }


if __name__ == "__main__":
    sys.stdout.write(dump(build(sys.argv[1], [*map(Path, sys.argv[2:])])) + "\n")
