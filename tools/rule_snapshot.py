"""Writes memlint/_shipped/rules.jsonl: the shipped rules as checked forms, which a start reads in milliseconds.

An install does this by itself (hatch_build.py). In a checkout a changed rule file, schema or part of the rule language
makes the snapshot stale; memlint then reads the rule files, which is right but ten times slower.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memlint.ruleset.shipped import SNAPSHOT
from memlint.ruleset.sources import snapshot_text


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    path = Path(SNAPSHOT)
    path.parent.mkdir(exist_ok=True)
    path.write_text(snapshot_text(stamped=True), encoding="utf-8", newline="\n")
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
