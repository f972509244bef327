"""Writes memlint/_shipped/profiles/: what autograd keeps in the layers of typical runs, which a start reads.

An install records the commonest by itself (hatch_build.py), this tool all of them. In a checkout a change of the code
that records layers makes the files stale; memlint then records each layer when it is needed, which is right but takes
4 ms a layer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memlint.memory.layers.record_profiles import write
from memlint.memory.layers.stored_profiles import FOLDER


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write(FOLDER, stamped=True)
    print(FOLDER)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
