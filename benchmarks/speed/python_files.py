"""How many Python files are looked at in a second: `python benchmarks/speed/python_files.py FOLDER [N]`.

N Python files below FOLDER (5,000 unless said) are read for training runs, as `memlint check` does, in one process.
Most name no trainer and no training loop and are passed over after a cheap look; printed are files a second of
processor time, how many were parsed, and the slowest.
"""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.repository.python.documents import PythonRepository, documents
from memlint.source.document import Problem
from memlint.source.encoding import MAX_BYTES, decode
from memlint.source.python.text import SourceText, parse


def main() -> int:
    command = parser(__doc__)
    command.add_argument("folder", type=Path)
    command.add_argument("number", nargs="?", type=int, default=5_000)
    options = command.parse_args()
    files = list(islice((path for path in sorted(options.folder.rglob("*.py")) if path.is_file()), options.number))
    parsed: set[str] = set()

    def counted(path: str, text: str) -> SourceText | Problem:
        parsed.add(path)
        return parse(path, text)

    def read(name: str) -> str | None:
        path = options.folder / name
        return decode(path.read_bytes()[:MAX_BYTES]).text if path.is_file() else None

    repository = PythonRepository(read, lambda name: None, lambda name: name, counted)
    seconds: dict[str, float] = {}
    runs = 0
    for path in files:
        name = str(path.relative_to(options.folder))
        text = decode(path.read_bytes()[:MAX_BYTES]).text
        start = time.process_time()
        runs += len(documents(name, text, repository))
        seconds[name] = time.process_time() - start
    total = sum(seconds.values())
    print(f"{len(files)} files in {total:.1f} s of processor time: {len(files) / total:.0f} a second")
    print(f"{len(parsed)} files were parsed, {runs} runs found")
    for name, spent in sorted(seconds.items(), key=lambda one: -one[1])[:5]:
        print(f"{spent * 1000:8.0f} ms {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
