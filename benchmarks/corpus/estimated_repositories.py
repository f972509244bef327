"""The share of repositories with an estimated run: `python benchmarks/corpus/estimated_repositories.py DATA`.

DATA holds `repos/`, the files of each repository. Every file that memlint reads is analysed for A100-80GB cards, 8 of
them where the file does not say how many. Printed is how many repositories have a training run with an estimate in a
config file alone, and with their scripts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.hardware import find
from memlint.repository.files.discovery import discover
from memlint.repository.workspace import Workspace, on_disk
from memlint.ruleset.engine import Engine
from memlint.run import Origin

CARD = "A100-80GB"
CONFIGS = (".yaml", ".yml", ".json")


def main() -> int:
    command = parser(__doc__)
    command.add_argument("data")
    folder = Path(command.parse_args().data) / "repos"
    configs, scripts, repositories = set(), set(), sorted(folder.iterdir())
    for repository in repositories:
        root = str(repository)
        workspace = on_disk(root, root)
        for file in discover([root], gitignore=False):
            path = os.path.relpath(file.path, root)
            found = configs if path.endswith(CONFIGS) else scripts
            if repository not in found and is_estimated(workspace, path):
                found.add(repository)
    total = len(repositories)
    print(f"{len(configs)} of {total} repositories have an estimated run in a config file")
    print(f"{len(configs | scripts)} of {total} have one with their scripts")
    return 0


def is_estimated(workspace: Workspace, path: str) -> bool:
    """Whether a file has a training run with a verdict."""
    engine, card, origin = Engine(()), find(CARD), Origin("setting")
    for document in workspace.documents(path):
        says_gpus = document.start is not None and document.start.machine.gpus
        facts = {} if says_gpus else {"gpus": 8, "gpus_per_node": 8, "gpus_origin": origin}
        analysis = engine.analyse(document, workspace.context(gpu=card, gpu_origin=origin, **facts))
        for run, estimate in zip(analysis.runs, analysis.estimates, strict=False):
            if run.purpose == "train" and estimate.verdict != "unknown":
                return True
    return False


if __name__ == "__main__":
    sys.exit(main())
