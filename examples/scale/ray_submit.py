"""`ray job submit` for configs that fit: `python examples/scale/ray_submit.py train.yaml H100 8`."""

from __future__ import annotations

import subprocess
import sys

import memlint


def submit(config: str, gpu: str, gpus: int, submit_command: tuple[str, ...] = ("ray", "job", "submit")) -> int:
    """Submits the training unless memlint sees that it cannot fit; the exit code of the submission, or 1."""
    estimate = memlint.estimate(config, gpu=gpu, gpus=gpus)
    if estimate.verdict == "out_of_memory":
        print(estimate, file=sys.stderr)
        print(memlint.plan(config, gpu=gpu, gpus=gpus), file=sys.stderr)
        return 1
    words = (*submit_command, "--entrypoint-num-gpus", str(gpus), "--", "llamafactory-cli", "train", config)
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(submit(sys.argv[1], sys.argv[2], int(sys.argv[3])))
