"""What a build adds: the version of the tag, the snapshot of the shipped rules, the recordings of layers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
# How many structures of layers a build from a clone records, the commonest. All of them, for releases, take a minute or
# two. MEMLINT_PROFILES sets another number, or "all"; tools/layer_profiles.py records all of them in a checkout.
COMMONEST = 24


def version() -> str:
    """The version of this tree: that of `memlint/__init__.py`; some commits after its tag, 0.1.0.post5+g1a2b3c4.

    A tree without git, without tags (a shallow clone, an archive of a commit) or before the tag has the plain one.
    """
    text = (ROOT / "memlint" / "__init__.py").read_text(encoding="utf-8")
    stated = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
    if Path(_git("rev-parse", "--show-toplevel") or "/") != ROOT:
        return str(stated)
    found = re.fullmatch(r".*-(\d+)-(g[0-9a-f]+)", _git("describe", "--tags", "--long", "--match", f"v{stated}"))
    return f"{stated}.post{found[1]}+{found[2]}" if found and found[1] != "0" else str(stated)


def _git(*words: str) -> str:
    """What git prints of this tree; "" where there is no git, no repository, or no answer."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class ShippedFiles(BuildHookInterface):  # type: ignore[type-arg]
    """Makes the files below memlint/_shipped. A broken rule file ends the build with the rule's own line and column.

    An editable install has them in the tree, with stamps of the code that they were made from. A wheel gets copies of
    its own without stamps: in the tree, such files would count as outdated, and each start would compile all rules.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from memlint import __version__
        from memlint.memory.layers.record_profiles import write
        from memlint.memory.layers.stored_profiles import is_current
        from memlint.ruleset.shipped import SNAPSHOT
        from memlint.ruleset.sources import snapshot_text

        is_editable = version == "editable"
        shipped = Path(SNAPSHOT).parent if is_editable else Path(tempfile.mkdtemp())
        shipped.mkdir(exist_ok=True)
        text = snapshot_text(stamped=is_editable)
        (shipped / "rules.jsonl").write_text(text, encoding="utf-8", newline="\n")
        wanted = os.environ.get("MEMLINT_PROFILES", str(COMMONEST))
        if not (is_editable and is_current()):  # a second install, with another extra, has them already
            write(str(shipped / "profiles"), stamped=is_editable, most=None if wanted == "all" else int(wanted))
        if is_editable:
            return
        if self.metadata.version != __version__:  # between two tags
            (shipped / "version.txt").write_text(self.metadata.version, encoding="utf-8")
        for file in shipped.rglob("*"):
            if file.is_file():
                build_data["force_include"][str(file)] = f"memlint/_shipped/{file.relative_to(shipped).as_posix()}"
        self._made = shipped

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        made: Path | None = getattr(self, "_made", None)
        if made is not None:
            shutil.rmtree(made)
