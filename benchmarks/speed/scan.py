"""Whether a check of very many files takes linear time and bounded memory.

    python benchmarks/speed/scan.py --memlint VENV [--files 20000] [--step 2000] [OPTION ...]

The configs are those of make_configs.py, no two the same, in folders of fifty; a third of them name one of their
folder's two DeepSpeed files. Printed are, for each `step` files, the process's memory and its processor seconds, then
what a thousand files add to each over the second half, and the peak of the whole check. Options that follow go to
`memlint check` (--no-fixes, --gpu ...). Linux, for the memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.speed.make_configs import config

FOLDER = 50
# Run with a step and a check's arguments: prints "files MiB seconds" after each step.
PROGRAM = """
import contextlib, os, sys, time
import memlint.cli
from memlint.lint.linter import Linter
step, lint_file, done = int(sys.argv[1]), Linter.lint_file, 0
def resident():
    with open("/proc/self/status") as stream:
        return int(stream.read().split("VmRSS:")[1].split()[0]) / 1024
def counted(self, path, named=True):
    global done
    done += 1
    if done % step == 0:
        print(done, round(resident(), 1), round(time.process_time(), 1), file=sys.stderr, flush=True)
    return lint_file(self, path, named)
Linter.lint_file = counted
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    memlint.cli.main(sys.argv[2:])
with open("/proc/self/status") as stream:
    print("peak", round(int(stream.read().split("VmHWM:")[1].split()[0]) / 1024, 1), file=sys.stderr)
"""


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--memlint", required=True, type=Path)
    options.add_argument("--files", type=int, default=20_000)
    options.add_argument("--step", type=int, default=2_000)
    given, more = options.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), given.files)
        check = ["check", ".", "--format", "concise", "--jobs", "1", "--no-cache", *more]
        command = [str(given.memlint.absolute() / "bin" / "python"), "-c", PROGRAM, str(given.step), *check]
        found = []
        with subprocess.Popen(command, cwd=name, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr or ():
                print(line, end="", flush=True)
                if line[0].isdigit():
                    found.append([float(word) for word in line.split()])
    (files, memory, seconds), (last, most, end) = found[len(found) // 2], found[-1]
    thousands = (last - files) / 1000
    print(f"a thousand more files: {(most - memory) / thousands:.2f} MiB, {(end - seconds) / thousands:.1f} s")
    return 0


def make(folder: Path, files: int) -> None:
    for number in range(files):
        place = folder / f"team{number // FOLDER:04}"
        place.mkdir(exist_ok=True)
        text = config(number)
        if number % 3 == 0:
            companion = f"zero{number % 2}.json"
            text += f"deepspeed: {companion}\n"
            (place / companion).write_text(json.dumps(zero(2 + number % 2, number)))
        (place / f"run{number:06}.yaml").write_text(text)


def zero(stage: int, number: int) -> dict[str, object]:
    auto = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
    buckets = {"stage": stage, "overlap_comm": True, "reduce_bucket_size": 100_000_000 + number}
    return {**auto, "bf16": {"enabled": "auto"}, "zero_optimization": buckets}


if __name__ == "__main__":
    raise SystemExit(main())
