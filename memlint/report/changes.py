"""What a fix does to the lines of the files, for `check --verbose`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.findings import Fix, Patch


def changed_lines(fix: Fix, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """("-", a line that goes) and ("+", a line that comes), patch by patch, of the files whose texts are known."""
    for patch in fix.patches:
        if patch.path in texts:
            yield from _of_patch(patch, texts[patch.path])


def _of_patch(patch: Patch, text: str) -> Iterator[tuple[str, str]]:
    start = text.rfind("\n", 0, patch.start) + 1
    end = text.find("\n", patch.end)
    end = len(text) if end < 0 else end
    old = text[start:end].splitlines()
    new = (text[start : patch.start] + patch.text + text[patch.end : end]).splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    yield from (("-", line) for line in old)
    yield from (("+", line) for line in new)
