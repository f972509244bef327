"""Prints how far the closed form is from the real engines, phase by phase.

The placement of model state plus measured activations; with `--estimate`, what `memlint.memory` answers on its own
(settings with offload left out: host and device are one on the CPU).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.comparisons.sharding import PHASES, errors, estimate_errors, quantile, rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", nargs="?", default="", help="settings whose name begins so (default: all)")
    parser.add_argument("--estimate", action="store_true", help="the whole estimate instead of the placement alone")
    options = parser.parse_args()
    found = (estimate_errors if options.estimate else errors)(rows())
    found = {name: by_phase for name, by_phase in found.items() if name.startswith(options.prefix)}
    phases = PHASES[1:] if options.estimate else PHASES
    print(f"{'setting':45s}" + "".join(f"{phase:>11s}" for phase in phases))
    for name, by_phase in found.items():
        print(f"{name:45s}" + "".join(f"{100 * by_phase[phase]:+10.1f}%" for phase in phases))
    for label, share in (("median", 0.5), ("p95", 0.95), ("worst", 1.0)):
        figures = [quantile([abs(e[phase]) for e in found.values()], share) for phase in phases]
        print(f"{label + f' of {len(found)}':45s}" + "".join(f"{100 * f:10.1f}%" for f in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
