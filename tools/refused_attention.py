"""Writes memlint/memory/families/refused_attention.json: which attention a family's class refuses, and since when.

    python tools/refused_attention.py FOLDER...      older releases, each unpacked into FOLDER (its name ends -VERSION)

Each class is built on the meta device with its default configuration and with what is asked for, so that a tower's
class is heard too; where that fails for another reason, the flags of the class decide (`_supports_flash_attn`,
`_supports_sdpa`, `_supports_flex_attn`; transformers 5.24 modeling_utils.py:1592, :1665, :1696). A family's value is
the oldest of the given releases from which on every one refuses, "" where that is so since it has the class. Without
folders the ages of the file are kept. A family that no longer refuses keeps its row, as that release and the first
that takes what the ones before refused.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from generated import ROOT, settle

from memlint.architectures.builder import families

DATA = ROOT / "memlint" / "memory" / "families" / "refused_attention.json"
FLAGS = {
    "flash_attention": ("_supports_flash_attn", "_supports_flash_attn_2"),
    "sdpa": ("_supports_sdpa",),
    "flex_attention": ("_supports_flex_attn",),
}
MAPPINGS = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "MULTIMODAL_LM")
# What is published under these names brings its own code, which `trust_remote_code` runs instead.
OWN_CODE = ("dbrx", "deepseek_v2", "deepseek_v3", "mimo_v2_flash", "mpt", "step3p7")
Sources = Mapping[str, Mapping[str, Any]]  # a release's classes by "<family>.<class>", and their flags


def sources(folder: Path) -> Sources:
    """The flags that the classes of a release set themselves."""
    found: dict[str, dict[str, Any]] = {}
    for path in folder.glob("transformers/models/*/modeling_*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[f"{path.parent.name}.{node.name}"] = dict(_constants(node))
    return found


def _constants(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            yield from ((target.id, line.value.value) for target in line.targets if isinstance(target, ast.Name))


def classes() -> Mapping[str, list[Any]]:
    """The classes that load each family with a block list."""
    import transformers
    from transformers.models.auto import modeling_auto

    found: dict[str, list[Any]] = {}
    for mapping in MAPPINGS:
        for family, names in getattr(modeling_auto, f"MODEL_FOR_{mapping}_MAPPING_NAMES").items():
            for name in (names,) if isinstance(names, str) else names:
                if family in families() and family not in OWN_CODE:
                    found.setdefault(family, []).append(getattr(transformers, name))
    return {family: list(dict.fromkeys(them)) for family, them in found.items()}


def refusing(cls: Any, kind: str) -> tuple[str, ...]:
    """The class that refuses this attention where `cls` is loaded with it, as "<family>.<class>", and the base of its
    family; empty for none."""
    import torch

    if not getattr(cls, FLAGS[kind][0]):
        return _owners(cls)
    asked = "flash_attention_2" if kind == "flash_attention" else kind
    try:
        with torch.device("meta"):
            cls._from_config(cls.config_class(), attn_implementation=asked)
    except ValueError as error:
        name, refuses, _ = str(error).partition(" does not support ")
        inner = next((one for one in _models() if one.__name__ == name), None) if refuses else None
        return _owners(inner) if inner else ()
    except Exception:
        return ()
    return ()


def _models() -> Iterator[Any]:
    from transformers import PreTrainedModel

    waiting = [PreTrainedModel]
    while waiting:
        waiting += (one := waiting.pop()).__subclasses__()
        yield one


def _owners(cls: Any) -> tuple[str, ...]:
    """A class and its bases in its family, the last of which most often has the flags."""
    bases = [one for one in cls.__mro__ if one.__module__.startswith("transformers.models.")]
    return tuple(f"{one.__module__.split('.')[2]}.{one.__name__}" for one in bases)


def since(owners: tuple[str, ...], kind: str, older: list[tuple[str, Sources]]) -> str:
    """The oldest release from which on all refuse; `older` from the newest to the oldest."""
    import transformers

    found = transformers.__version__
    for version, classes_ in older:
        if owners[-1] not in classes_:
            return ""
        if _supports([classes_.get(owner, {}) for owner in owners], FLAGS[kind]):
            return found
        found = version
    return found if older else ""


def _supports(flags: list[Mapping[str, Any]], names: tuple[str, ...]) -> bool:
    """Whether a class supports what the flags of these names say, where the first class that sets one decides."""
    return next((any(own.get(name) for name in names) for own in flags if any(name in own for name in names)), False)


def table(older: list[tuple[str, Sources]], kept: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    import transformers

    for kind in FLAGS:
        before, rows = kept.get(kind, {}), {}
        for family, them in sorted(classes().items()):
            owners = [refusing(cls, kind) for cls in them]
            if all(owners):
                age = max((since(owner, kind, older) for owner in owners), key=_numbers)
                rows[family] = age if older else before.get(family, age)
            elif family in before:
                age = before[family]
                rows[family] = age if isinstance(age, list) else [age, transformers.__version__]
        yield kind, rows


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part]


def main() -> int:
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    _pretend_that_flash_attention_is_installed()
    folders = [Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")]
    older = [(path.name.rpartition("-")[2], sources(path)) for path in folders]
    older.sort(key=lambda release: _numbers(release[0]), reverse=True)
    kept = json.loads(DATA.read_text(encoding="utf-8")) if DATA.is_file() else {}
    found = {"transformers": transformers.__version__, **dict(table(older, kept))}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    return settle({DATA: f"{{\n{lines}\n}}\n"}, sys.argv[1:])


def _pretend_that_flash_attention_is_installed() -> None:
    from transformers import modeling_utils

    utils: Any = modeling_utils
    utils.PreTrainedModel._flash_attn_import_error = lambda *_, **__: None
    utils.lazy_import_flash_attention = lambda *_, **__: None
    matrix = utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX
    utils.FLASH_ATTENTION_COMPATIBILITY_MATRIX = {
        version: {**facts, "general_availability_check": lambda: True} for version, facts in matrix.items()
    }


if __name__ == "__main__":
    sys.exit(main())
