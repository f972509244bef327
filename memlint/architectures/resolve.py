"""Which model does a name mean? Folder, settings, catalog, cache, hub (when asked), in that order."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from memlint.architectures.model import Resolution


def resolve(
    name: str,
    base_dirs: Sequence[str] = (),
    models: Mapping[str, str | dict[str, Any]] = {},
    hub: bool = False,
) -> Resolution:
    return Resolution(name, "unknown", None, reason="not in the catalog")
