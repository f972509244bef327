"""Derive schemas/axolotl.json from Axolotl's sources, which are read and never run.

    python tools/axolotl_schema.py RELEASE CHECKOUT > schemas/axolotl.json

RELEASE is the newest release, unpacked (its VERSION file names it). CHECKOUT is a git checkout with tags: every tag
since v0.5.0, the first with pydantic models, is read, so that a key's first and last release are known.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from axolotl_overlay import (
    ALIASES,
    DEPRECATED,
    EXTRA,
    FSDP_GONE,
    LIMITS,
    OVERRIDES,
    REMOVED,
    REMOVED_VALUES,
    RENAMED,
    SCHEDULERS,
    TYPES,
    VALUE_ALIASES,
)
from llamafactory_schema import dump, git
from pydantic_models import ModelField, Sources, config_of, fields, is_enum, members, read
from schema_parts import SCHEMAS, Schema, any_of, kinds_of

TOP = "AxolotlInputConfig"
FIRST = "0.5.0"
DATASETS = ("SFTDataset", "DPODataset", "KTODataset", "StepwiseSupervisedDataset", "SyntheticDataset")
DATASET_TYPES = ("UserDefinedPrompterType", "UserDefinedDPOType", "UserDefinedKTOType")
FILES = re.compile(r"src/axolotl/(utils/schemas/|utils/config/models/input/v0|integrations/).*\.py")

# pydantic's lax mode (conversion table): words and 0/1 for booleans, text for numbers, booleans for numbers.
_WORDS = ("true", "t", "yes", "y", "on", "false", "f", "no", "n", "off")
_ANY_CASE = "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in _WORDS)
_DIGITS = r"[0-9]+(_[0-9]+)*"
INTEGER_TEXT = rf"^\s*[+-]?{_DIGITS}(\.0+)?\s*$"
NUMBER_TEXT = (
    rf"^\s*[+-]?({_DIGITS}(\.({_DIGITS})?)?([eE][+-]?{_DIGITS})?|\.{_DIGITS}([eE][+-]?{_DIGITS})?"
    r"|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*$"
)
SCALARS: dict[str, Schema] = {
    "flag": {
        "anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": f"^({_ANY_CASE}|0|1)$"}],
        "x-memlint-says": "true or false",
    },
    "integer": {
        "anyOf": [{"type": ["integer", "boolean"]}, {"type": "string", "pattern": INTEGER_TEXT}],
        "x-memlint-says": "an integer",
    },
    "number": {
        "anyOf": [{"type": ["number", "boolean"]}, {"type": "string", "pattern": NUMBER_TEXT}],
        "x-memlint-says": "a number",
    },
}
PLAIN = {"str": "string", "dict": "object", "Dict": "object", "list": "array", "List": "array", "None": "null"}
REFERENCES = {"bool": "flag", "int": "integer", "float": "number"}
LIST, MAPPING = ("items", "minItems", "maxItems"), ("properties", "additionalProperties", "x-memlint-unknown")
DETAILS = {"array": LIST, "object": MAPPING}
NAMED = {"integer": "an integer", "number": "a number"}


class Release(NamedTuple):
    version: str
    sources: Sources
    plugins: dict[str, str]  # a class of plugin arguments -> the plugin's name


def releases(newest: Path, checkout: str) -> list[Release]:
    tags = git(checkout, "tag", "--sort=v:refname").split()
    old = [tag for tag in tags if numbers(tag) >= numbers(FIRST)]
    found = [release(tag.removeprefix("v"), texts_of_tag(checkout, tag)) for tag in old]
    return [*found, release((newest / "VERSION").read_text().strip(), texts_of_folder(newest))]


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


class Compiler:
    """Schemas of the annotations of one release; models become `$defs`, with the kinds of value beside a mapping."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.models: dict[str, list[str]] = {}

    def of(self, annotation: ast.expr) -> Schema:
        if isinstance(annotation, ast.Constant):
            text = annotation.value
            return self.of(ast.parse(text, mode="eval").body) if isinstance(text, str) else {"type": "null"}
        if isinstance(annotation, ast.BinOp):
            return self.union([annotation.left, annotation.right])
        if isinstance(annotation, ast.Subscript):
            return self.subscript(annotation)
        return self.name(ast.unparse(annotation).rpartition(".")[2])

    def union(self, parts: list[ast.expr], *more: Schema) -> Schema:
        """One schema wherever possible: a message about a part of `anyOf` says little."""
        branches = once([*(self.of(part) for part in parts), *more])
        named = [branch for branch in branches if "$ref" in branch and model_of(branch) in self.models]
        if len(named) != 1:
            return merged_union(branches)
        kinds = [kind for branch in branches if branch is not named[0] for kind in kinds_beside(branch)]
        self.models[model_of(named[0])] = list(dict.fromkeys([*self.models[model_of(named[0])], *kinds]))
        return named[0]

    def subscript(self, annotation: ast.Subscript) -> Schema:
        head = ast.unparse(annotation.value).rpartition(".")[2]
        inside = annotation.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if head == "Literal":
            return {"enum": [ast.literal_eval(part) for part in parts]}
        if head in ("Optional", "Union"):
            return self.union(parts, *([{"type": "null"}] if head == "Optional" else []))
        if head == "Annotated":
            return self.annotated(parts)
        if head in ("list", "List"):
            return {"type": "array", "items": self.of(parts[0])}
        if head in ("tuple", "Tuple"):
            return {"type": "array", "minItems": len(parts), "maxItems": len(parts), "items": self.of(parts[0])}
        if head in ("dict", "Dict"):
            value = self.of(parts[1])
            return {"type": "object", **({"additionalProperties": value} if value else {})}
        return {}

    def annotated(self, parts: list[ast.expr]) -> Schema:
        schema = self.of(parts[0])
        for extra in parts[1:]:
            words = {word.arg: ast.literal_eval(word.value) for word in getattr(extra, "keywords", [])}
            if "pattern" in words:
                schema = {**schema, "pattern": words["pattern"]}
            elif ast.unparse(extra).startswith("MinLen"):
                schema = {**schema, "minItems": 1}
        return schema

    def name(self, name: str) -> Schema:
        if name in TYPES:
            return dict(TYPES[name])
        if name in REFERENCES:
            return {"$ref": f"#/$defs/{REFERENCES[name]}"}
        if name in PLAIN:
            return {"type": PLAIN[name]}
        if name in self.sources.classes:
            node = self.sources.classes[name]
            return {"enum": members(node)} if is_enum(node) else self.model(name)
        if name in self.sources.assigned:
            return self.of(self.sources.assigned[name])
        return {}

    def model(self, name: str) -> Schema:
        kept = "Dataset" if name in DATASETS else "DatasetType" if name in DATASET_TYPES else name
        self.models.setdefault(kept, [])
        return {"$ref": f"#/$defs/{kept}"}


def model_of(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def kinds_beside(branch: Schema) -> list[str]:
    """`Model | bool | None`: the kinds of value beside the mapping."""
    return kinds_of(branch) if "type" in branch else ["boolean", "integer", "string"]


def once(parts: list[Schema]) -> list[Schema]:
    """The alternatives, laid flat, none twice, and no words beside any text."""
    flat = [branch for part in parts for branch in alternatives(part)]
    found = [branch for index, branch in enumerate(flat) if branch not in flat[:index]]
    if {"type": "string"} in found:
        found = [branch for branch in found if not all(isinstance(word, str) for word in branch.get("enum", (0,)))]
    return found


def alternatives(schema: Schema) -> list[Schema]:
    if set(schema) == {"anyOf"}:
        return [part for branch in schema["anyOf"] for part in alternatives(branch)]
    if not isinstance(schema.get("type"), list):
        return [schema]
    details = {key: value for key, value in schema.items() if key != "type"}
    return [
        {"type": kind, **{key: details[key] for key in DETAILS.get(kind, ()) if key in details}}
        for kind in schema["type"]
    ]


def merged_union(branches: list[Schema]) -> Schema:
    """Lists and mappings share one schema with plain types: their keywords leave other values alone."""
    if {} in branches:
        return {}
    kinds = [branch["type"] for branch in branches if "type" in branch and set(branch) <= {"type", *LIST, *MAPPING}]
    rest = [branch for branch in branches if branch.get("type") not in kinds]
    if len(set(kinds)) < len(kinds):
        return any_of(branches)
    together = {key: value for branch in branches if branch not in rest for key, value in branch.items()}
    whole = [{**together, "type": kinds[0] if len(kinds) == 1 else kinds}] if kinds else []
    return (rest + whole)[0] if len(rest + whole) == 1 else {"anyOf": rest + whole}


def bounded(schema: Schema, bounds: Schema) -> Schema:
    """A number within bounds, or text: one schema without alternatives, so that a message can name the bound."""
    branches = schema.get("anyOf", [schema])
    kinds = [str(branch["$ref"]).rpartition("/")[2] for branch in branches if "$ref" in branch]
    null = ["null"] if {"type": "null"} in branches else []
    says = NAMED[kinds[0]] + (" or null" if null else "")
    text = {"integer": INTEGER_TEXT, "number": NUMBER_TEXT}[kinds[0]]
    return {"type": [kinds[0], "string", *null], "pattern": text, **bounds, "x-memlint-says": says}


def schema_of(field: ModelField, compiler: Compiler) -> Schema:
    if field.name in OVERRIDES:
        schema: Schema = json.loads(json.dumps(OVERRIDES[field.name]))
    else:
        schema = compiler.of(field.annotation)
        bounds = {**field.bounds, **LIMITS.get(field.name, {})}
        schema = bounded(schema, bounds) if bounds else schema
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
        for alias in (name, *field.aliases):
            result[alias] = {**schema}
    return result


def removed_values(name: str, found: Found) -> dict[str, str]:
    """Values of a key that some release took and the newest does not -> the release that dropped them."""
    choices = []
    for version, keys, sources in found:
        schema = Compiler(sources).of(keys[name].annotation) if name in keys else {}
        words = {word for part in schema.get("anyOf", [schema]) for word in part.get("enum", ())}
        choices.append((version, {word for word in words if isinstance(word, str)}))
    now = choices[-1][1]
    gone: dict[str, str] = {}
    for word in sorted(set().union(*(words for _, words in choices)) - now) if now else []:
        last = max(index for index, (_, words) in enumerate(choices) if word in words)
        gone[word] = f"axolotl {choices[last + 1][0]}"
    return gone


def with_removed_values(schema: Schema, gone: dict[str, str]) -> Schema:
    """Values that are gone are reported as such, and not as unknown ones."""
    for part in schema.get("anyOf", [schema]):
        if "enum" in part:
            part["enum"] = list(dict.fromkeys([*part["enum"], *gone]))
    return {**schema, **({"x-memlint-removed-values": gone} if gone else {})}


def model_schema(keys: dict[str, Schema], kinds: Iterable[str] = (), required: Iterable[str] = ()) -> Schema:
    """A model's mapping, or a value of other kinds beside it. pydantic drops the keys that a model does not have."""
    needed = sorted(required)
    return {
        "type": ["object", *kinds] if kinds else "object",
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
    for key, values in REMOVED_VALUES.get(name, {}).items():
        keys[key] = {**keys[key], "x-memlint-value-aliases": VALUE_ALIASES.get(f"{name}.{key}", {})}
        keys[key] = with_removed_values(keys[key], values)
    if name == "FSDPConfig":
        keys = with_prefix(keys)
    if name == "Dataset":
        keys["train_on_split"]["x-memlint-renamed-to"] = "split"
    needed = (
        [] if name in several else [field.name for field in fields(name, compiler.sources).values() if field.required]
    )
    schema = model_schema(keys, compiler.models[name], needed)
    if name not in several and "forbid" in config_of(name, compiler.sources):
        schema["x-memlint-unknown"] = "error"
    return schema


def with_prefix(keys: dict[str, Schema]) -> dict[str, Schema]:
    """fsdp_config: the prefix is taken off before the model sees a key (check_fsdp_config_kwargs_prefix)."""
    gone = {"x-memlint-removed-in": "axolotl 0.13.0", "x-memlint-note": "ignored"}
    both = {**dict.fromkeys(FSDP_GONE, gone), **keys}
    return {**both, **{f"fsdp_{name}": schema for name, schema in both.items() if not name.startswith("fsdp_")}}


def definitions(all_releases: list[Release], compiler: Compiler) -> dict[str, Schema]:
    """The models that the keys use, and those that these use."""
    found: dict[str, Schema] = {}
    while set(compiler.models) - set(found):
        for name in [name for name in compiler.models if name not in found]:
            found[name] = definition(name, all_releases, compiler)
    for name, kinds in compiler.models.items():
        found[name]["type"] = ["object", *kinds] if kinds else "object"
    return dict(sorted(found.items()))


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
    return {**keys, **EXTRA}


def optimizer(compiler: Compiler, schema: Schema) -> Schema:
    """The names of Axolotl, and those of transformers (schemas/trainer.json): TrainingArguments refuse others."""
    trainer = json.loads((SCHEMAS / "trainer.json").read_text(encoding="utf-8"))["properties"]["optim"]
    names = [word for part in trainer["anyOf"] for word in part.get("enum", ())]
    own = members(compiler.sources.classes["CustomSupportedOptimizers"])
    kept = {key: value for key, value in schema.items() if note(key)}
    aliases = {"x-memlint-value-aliases": VALUE_ALIASES[f"{TOP}.optimizer"]}
    wanted = {"enum": [*dict.fromkeys([*names, *own]), None], **kept, **aliases}
    return with_removed_values(wanted, REMOVED_VALUES[TOP]["optimizer"])


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


def build(newest: Path, checkout: str) -> Schema:
    all_releases = releases(newest, checkout)
    compiler = Compiler(all_releases[-1].sources)
    keys = top_level(all_releases, compiler)
    renamed(keys)
    removed(keys)
    needed = [field.name for field in fields(TOP, compiler.sources).values() if field.required]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Axolotl",
        "description": f"Derived by tools/axolotl_schema.py from Axolotl {FIRST} to {all_releases[-1].version}.",
        **model_schema(keys, required=needed),
        "x-memlint-aliases": ALIASES,
        "$defs": {**SCALARS, **definitions(all_releases, compiler)},
    }


if __name__ == "__main__":
    sys.stdout.write(dump(build(Path(sys.argv[1]), sys.argv[2])) + "\n")
