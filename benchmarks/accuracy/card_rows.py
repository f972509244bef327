"""Published readings of the card (reserved, nvidia-smi) where the tensors' figure was not recorded.

    python benchmarks/accuracy/card_rows.py [-v]

Nothing is calibrated on these rows. `reserved` is held against the interval without the CUDA context, readings whose
tool is not named against both ends: reserved or the whole card. Runs are described here, one function a tool.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.card_rows import Read, lines, readings


def _print_all() -> None:
    for one in readings():
        if isinstance(one, Read):
            figures = f"{one.shown:7.2f} of {one.allocated:7.2f} allocated"
            print(f"{one.id:44} {figures}, {one.central:7.2f} in [{one.low:7.2f}, {one.high:7.2f}]")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print every row")
    if arguments.parse_args().verbose:
        _print_all()
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
