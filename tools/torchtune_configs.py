"""Write memlint/formats/torchtune/shipped_configs.jsonl from torchtune's releases, which are read and never run.

    python tools/torchtune_configs.py FOLDER...

Each FOLDER is a wheel of torchtune, unpacked, and named after its release (`0.6.1`). A line has the name of a config
that `tune ls` lists for a recipe that trains, the first and the last of the releases that ship it with these values,
and the values that memlint reads. Recipes below `dev/` are left out.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memlint.formats.torchtune.keys import KEYS
from memlint.formats.torchtune.recipes import OF_SEVERAL, Release

OUTPUT = Path(__file__).resolve().parents[1] / "memlint/formats/torchtune/shipped_configs.jsonl"
_WITHOUT_TRAINING = ("generate", "eleuther_eval", "quantize")
_ARGUMENTS = ("model", "optimizer", "loss")  # sections whose keys are all arguments of what they name
_OTHERS = ("tensor_parallel_plan", "ppo_epochs")  # read without a row of the table
_NAMED = ("teacher_model", "policy_model", "quantizer")  # sections that tell a recipe by being there


class _Loader(yaml.SafeLoader):
    """With OmegaConf's numbers: `2e-5` is one."""


_FLOAT = re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789"))


def main(*folders: Path) -> None:
    found: dict[str, list[tuple[list[str], dict[str, Any]]]] = {}
    for folder in sorted(folders, key=lambda one: _release(one.name)):
        for name, values in _configs(folder):
            versions = found.setdefault(name, [])
            if versions and versions[-1][1] == values:
                versions[-1][0][1] = folder.name
            else:
                versions.append(([folder.name, folder.name], values))
    OUTPUT.write_text("".join(_lines(found)), encoding="utf-8", newline="\n")


def _release(text: str) -> Release:
    return tuple(map(int, text.split(".")))


def _lines(found: Mapping[str, list[tuple[list[str], dict[str, Any]]]]) -> Iterator[str]:
    for name in sorted(found):
        for releases, values in found[name]:
            line = {"name": name, "releases": releases, "values": values}
            yield json.dumps(line, separators=(",", ":")) + "\n"


def _configs(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of `tune ls` with their values."""
    for name, path in sorted(_listed(folder / "torchtune/_recipe_registry.py")):
        text = (folder / "recipes/configs" / path).read_text(encoding="utf-8")
        values = _kept(yaml.load(text, _Loader))
        if "${" in json.dumps(values):
            raise SystemExit(f"{path}: a reference among the values that are kept")
        yield name, values


def _listed(registry: Path) -> set[tuple[str, str]]:
    """Name and file of each config of a recipe that trains."""
    calls = (node for node in ast.walk(ast.parse(registry.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    recipes = [{one.arg: one.value for one in call.keywords} for call in calls if ast.unparse(call.func) == "Recipe"]
    found = set()
    for recipe in recipes:
        name, configs = ast.literal_eval(recipe["name"]), recipe["configs"]
        if name.startswith("dev/") or name in _WITHOUT_TRAINING or not isinstance(configs, ast.List):
            continue
        for config in configs.elts:
            assert isinstance(config, ast.Call)
            given = {one.arg: ast.literal_eval(one.value) for one in config.keywords}
            found.add((given["name"], given["file_path"]))
    return found


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """What memlint reads of a config, without null, which counts as not given."""
    names = {row.name for row in KEYS}
    top = {name.partition(".")[0] for name in names} | {*OF_SEVERAL, *_OTHERS, *_NAMED}
    found = {key: _part(key, values[key], names) for key in values if key in top and values[key] is not None}
    return {key: value for key, value in found.items() if value not in ({}, None)}


def _part(key: str, value: Any, names: set[str]) -> Any:
    if isinstance(value, list) and key == "dataset":
        return [_part(key, one, names) for one in value]
    if not isinstance(value, dict):
        return value
    if key in _NAMED:
        return {name: one for name, one in value.items() if name == "_component_"}
    return {
        name: one
        for name, one in value.items()
        if one is not None and (key in _ARGUMENTS or f"{key}.{name}" in names or key == "tensor_parallel_plan")
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
