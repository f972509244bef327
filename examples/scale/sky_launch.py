"""`sky launch` for tasks that fit the accelerator that they ask for: `python sky_launch.py task.yaml`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

import memlint


def launch(task: str, sky: tuple[str, ...] = ("sky", "launch")) -> int:
    """Launches the task unless one of its trainings cannot fit; the exit code of the launch, or 1."""
    accelerators = str(yaml.safe_load(Path(task).read_text(encoding="utf-8"))["resources"]["accelerators"])
    gpu, _, count = accelerators.partition(":")
    for estimate in memlint.estimates(task, gpu=gpu, gpus=int(count or 1)):
        if estimate.verdict == "out_of_memory":
            print(estimate, file=sys.stderr)
            return 1
    return subprocess.run((*sky, task), check=False).returncode


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1]))
