"""Which model names of a folder of training configs resolve: the share, and the list of the rest.

    python tools/catalog_coverage.py FOLDER...

Reads every YAML and JSON file below the folders; names are the values of the keys below. Local folders
named like nothing ("/scratch/run_7_merged") count as unresolved, placeholders do not count.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from memlint.architectures import names, resolve

KEYS = {"model_name_or_path", "base_model", "base_model_config", "checkpoint_dir", "ref_model", "reward_model", "model"}


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
    uses = collections.Counter(name for path in files for name in read(path) if not names.is_placeholder(name))
    rest = {name: count for name, count in uses.items() if resolve(name).architecture is None}
    for name, count in sorted(rest.items(), key=lambda item: -item[1]):
        print(f"{count:>4} {name}: {resolve(name).reason}")
    total = sum(uses.values())
    print(f"{len(uses) - len(rest)} of {len(uses)} names, {total - sum(rest.values())} of {total} uses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
