"""Which model names of a folder of training configs resolve: the share, and the list of the rest.

    python tools/catalog_coverage.py FOLDER...

Reads every YAML and JSON file below the folders; names are the values of the keys below. Placeholders do not
count: names that stand for a name (architectures/placeholders.py), and nameless folders, which are listed apart. A
folder is nameless where it is a local path of which no part states a size ("/tmp/llama2", "/scratch/grade_3_merged"):
its shape is in no name that anybody could look up.
"""

from __future__ import annotations

import collections
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from memlint.architectures import resolve
from memlint.architectures.placeholders import is_placeholder

KEYS = {"model_name_or_path", "base_model", "base_model_config", "checkpoint_dir", "ref_model", "reward_model", "model"}


LOCAL = re.compile(r"^(?:[/~.\\]|[A-Za-z]:\\)")  # an absolute path, one from home, one from here
SIZE = re.compile(r"(?<![a-z0-9])\d+(?:\.\d+)?[bm](?![a-z])", re.IGNORECASE)  # 7b, 0.5B, 125m


def is_nameless(name: str) -> bool:
    """Whether `name` is a local path that says nothing of a model."""
    return bool(LOCAL.match(name)) and not SIZE.search(name)


def found(value: Any, depth: int = 0) -> Iterator[str]:
    """Model names in a parsed file."""
    if depth > 8 or not isinstance(value, (dict, list)):
        return
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in items:
        if key in KEYS and isinstance(item, str):
            yield item
        else:
            yield from found(item, depth + 1)


def read(path: Path) -> Iterator[str]:
    try:
        for document in yaml.load_all(path.read_text(encoding="utf-8", errors="replace"), Loader=yaml.CSafeLoader):
            yield from found(document)
    except (yaml.YAMLError, ValueError, RecursionError):
        return


def main() -> int:
    files = [
        path for folder in sys.argv[1:] for path in Path(folder).rglob("*") if path.suffix in (".yaml", ".yml", ".json")
    ]
    uses = collections.Counter(name for path in files for name in read(path) if not is_placeholder(name))
    rest = {name: count for name, count in uses.items() if resolve(name).architecture is None}
    nameless = {name: count for name, count in rest.items() if is_nameless(name)}
    for name, count in sorted(rest.items(), key=lambda item: (item[0] in nameless, -item[1])):
        print(f"{count:>4} {name}: {'nameless folder' if name in nameless else resolve(name).reason}")
    total = sum(uses.values()) - sum(nameless.values())
    known = total - sum(rest.values()) + sum(nameless.values())
    names_left, resolved = len(uses) - len(nameless), len(uses) - len(rest)
    print(f"{resolved} of {names_left} names ({resolved / max(1, names_left):.1%}), ", end="")
    print(f"{known} of {total} uses ({known / max(1, total):.1%}); {len(nameless)} nameless folders")
    return 0


if __name__ == "__main__":
    sys.exit(main())
