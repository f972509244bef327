"""Files that a tool writes: written where they are stale, or only named with `--check`, which then exits with 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def settle(wanted: Mapping[Path, str], arguments: list[str], present: Iterable[Path] = ()) -> int:
    """Writes each file of `wanted` that says something else, and removes those of `present` that nobody wants."""
    only_check = "--check" in arguments
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    left = sorted(set(present) - set(wanted))
    if not only_check:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        for path in left:
            path.unlink()
    for path in [*stale, *left]:
        print(f"{path.relative_to(ROOT)}: {'stale' if only_check else 'written'}")
    return int(bool(stale or left) and only_check)
