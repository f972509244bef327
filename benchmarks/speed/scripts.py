"""How many scripts are read in a second: `python benchmarks/speed/scripts.py DATA [N]`.

DATA holds `repos/`, the files of each repository. N scripts (2,000 unless said; the same ones again where there are
fewer) are followed and turned into documents, programs included, in one process. Printed are scripts a second of
processor time, and the slowest.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.repository.workspace import on_disk

SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")


def main() -> int:
    command = parser(__doc__)
    command.add_argument("data")
    command.add_argument("number", nargs="?", type=int, default=2_000)
    options = command.parse_args()
    scripts = list(found(Path(options.data) / "repos"))
    seconds: dict[tuple[str, str], float] = {}
    for script in islice(cycle(scripts), options.number):
        workspace = on_disk(script[0], script[0])
        start = time.process_time()
        workspace.documents(script[1])
        seconds[script] = seconds.get(script, 0.0) + time.process_time() - start
    rounds = options.number / len(scripts)
    total = sum(seconds.values())
    print(f"{options.number} scripts in {total:.1f} s of processor time: {options.number / total:.0f} a second")
    for script, spent in sorted(seconds.items(), key=lambda one: -one[1])[:5]:
        print(f"  {1000 * spent / max(1.0, rounds):6.0f} ms {script[1]}")
    return 0


def found(repositories: Path) -> Iterator[tuple[str, str]]:
    for repository in sorted(repositories.iterdir()):
        for folder, _, names in os.walk(repository):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    yield str(repository), os.path.relpath(os.path.join(folder, name), repository)


if __name__ == "__main__":
    sys.exit(main())
