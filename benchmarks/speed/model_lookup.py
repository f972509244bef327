"""How long the first look-up of a model and of a GPU takes: cold, each in a process of its own.

Prints milliseconds, the median of several processes: importing the room, the first answer, a second one.
The standard library's modules that every command needs are imported before the clock starts.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

PROGRAM = """
import typing, re, json, os, functools, time
start = time.perf_counter()
from memlint.{room} import {call} as look_up
imported = time.perf_counter()
look_up({first!r})
answered = time.perf_counter()
look_up({second!r})
again = time.perf_counter()
print((imported - start) * 1e3, (answered - imported) * 1e3, (again - answered) * 1e3)
"""
CASES = (
    ("architectures", "resolve", "Qwen/Qwen2.5-7B-Instruct", "/data/Meta-Llama-3-8B-Instruct-GPTQ"),
    ("hardware", "find", "NVIDIA A100-SXM4-80GB", "RTX4090"),
)


def measure(program: str) -> list[float]:
    command = [sys.executable, "-X", "pycache_prefix=/tmp/memlint-benchmark", "-c", program]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(9)]
    return [statistics.median(float(run[column]) for run in runs[2:]) for column in range(3)]


def main() -> None:
    parser(__doc__).parse_args()
    print(f"{'room':<15}{'import':>9}{'first':>9}{'second':>9}  ms")
    for room, call, first, second in CASES:
        figures = measure(PROGRAM.format(room=room, call=call, first=first, second=second))
        print(f"{room:<15}" + "".join(f"{figure:>9.2f}" for figure in figures))


if __name__ == "__main__":
    main()
