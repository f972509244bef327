"""Write memlint/formats/torchtune/components.json from torchtune's releases, which are read and never run.

    python tools/torchtune_components.py SOURCES

SOURCES holds the unpacked wheels `torchtune-0.3.1` to `torchtune-0.6.1`. Of each function and class that a file may
name as `_component_`, but for models, the table has the arguments of each release, needed ones with a `!` and `**`
where any is taken; of each recipe the keys that its code asks for without a default.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from key_releases import release_of

OUTPUT = Path(__file__).resolve().parents[1] / "memlint" / "formats" / "torchtune" / "components.json"
_PACKAGES = ("datasets", "training", "modules", "rlhf", "data", "utils")
_OF_MODELS = ("_tokenizer", "_transform")


def main(sources: Path) -> None:
    folders = sorted(sources.glob("torchtune-*"), key=release_of)
    components: dict[str, dict[str, str]] = {}
    recipes: dict[str, dict[str, str]] = {}
    for folder in folders:
        release = ".".join(map(str, release_of(folder)))
        for name, arguments in components_of(folder / "torchtune"):
            components.setdefault(name, {})[release] = arguments
        for path in sorted((folder / "recipes").glob("*.py")):
            keys = needed_keys(path)
            if keys:
                recipes.setdefault(path.stem, {})[release] = " ".join(keys)
    found = {"releases": [".".join(map(str, release_of(one))) for one in folders]}
    table = {**found, "components": shortened(components), "recipes": shortened(recipes)}
    OUTPUT.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def shortened(by_name: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Releases with the same words in one: "0.3.1 0.4.0": words."""
    found = {}
    for name, releases in sorted(by_name.items()):
        groups: dict[str, list[str]] = {}
        for release, words in releases.items():
            groups.setdefault(words, []).append(release)
        found[name] = {" ".join(group): words for words, group in groups.items()}
    return found


def components_of(package: Path) -> Iterator[tuple[str, str]]:
    """Each name that a module defines or hands on, by its dotted path, with its arguments."""
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        area = parts[1] if len(parts) > 1 else ""
        for name, node in _names(path, package):
            wanted = area in _PACKAGES or (area == "models" and name.endswith(_OF_MODELS))
            if wanted and not name.startswith("_"):
                yield f"{module}.{name}", _arguments(node, path)


def _names(path: Path, package: Path, depth: int = 4) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name, node
        elif (
            isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
        ):
            yield node.targets[0].id, node.value
        elif isinstance(node, ast.ImportFrom) and depth and (node.level or str(node.module).startswith("torchtune")):
            above = path.parents[node.level - 1] if node.level else package.parent
            source = above / Path(*str(node.module or "").split("."))
            file = source.with_suffix(".py") if source.with_suffix(".py").is_file() else source / "__init__.py"
            known = dict(_names(file, package, depth - 1)) if file.is_file() else {}
            yield from ((one.asname or one.name, known[one.name]) for one in node.names if one.name in known)


def _arguments(node: ast.AST, path: Path) -> str:
    """ "tokenizer! source packed": the needed ones with a mark; "**" where any other is taken, or nothing is known."""
    if isinstance(node, ast.ClassDef):
        made = [line for line in node.body if isinstance(line, ast.FunctionDef) and line.name == "__init__"]
        return _parameters(made[0].args) if made else "**"
    return _parameters(node.args) if isinstance(node, ast.FunctionDef) else "**"


def _parameters(found: ast.arguments) -> str:
    names = [one.arg for one in (*found.posonlyargs, *found.args) if one.arg != "self"]
    needed = len(names) - len(found.defaults)
    marked = [f"{name}!" if index < needed else name for index, name in enumerate(names)]
    only = zip(found.kwonlyargs, found.kw_defaults, strict=True)
    others = (one.arg if default is not None else f"{one.arg}!" for one, default in only)
    return " ".join((*marked, *others, *(("**",) if found.kwarg is not None else ())))


def needed_keys(path: Path) -> list[str]:
    """Keys of the file that the recipe reads as attributes, at its top and in its sections."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    keys = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == "cfg":
            keys.add(node.attr)
    return sorted(keys - {"get", "pop", "items", "keys", "device_mesh"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
