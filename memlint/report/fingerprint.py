"""Fingerprints that identify a finding across runs: of its file, rule and message key, never of a line or a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

from memlint.findings import Finding


def fingerprints(items: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Each finding with a hex fingerprint; findings with the same key are told apart by their order."""
    seen: dict[tuple[str, str, str], int] = {}
    for item in items:
        key = (item.location.path, item.rule, item.key or item.message)
        seen[key] = seen.get(key, 0) + 1
        text = "\0".join([*key, str(seen[key])])
        yield item, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
