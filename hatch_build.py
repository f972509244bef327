"""Writes the snapshot of rules and the recordings of layers when a wheel or an editable install is built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedData(BuildHookInterface):  # type: ignore[type-arg]
    """A broken rule file ends the build with the rule's own line and column."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from memlint.memory.record_profiles import write
        from memlint.ruleset.shipped import SNAPSHOT
        from memlint.ruleset.sources import snapshot_text

        text = snapshot_text(stamped=version == "editable")
        Path(SNAPSHOT).parent.mkdir(exist_ok=True)
        Path(SNAPSHOT).write_text(text, encoding="utf-8", newline="\n")
        write(stamped=version == "editable")
        build_data["artifacts"] += ["memlint/_shipped/rules.jsonl", "memlint/_shipped/profiles"]
