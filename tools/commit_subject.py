"""A commit-msg hook: the subject has a scope and at most 72 characters ("memory: KV cache counts sliding windows")."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LONGEST = 72
_SUBJECT = re.compile(r"[a-z][a-z, /_-]*: \S.*|Merge .*|Revert .*|fixup! .*|squash! .*")


def fault(subject: str) -> str:
    """What is wrong with a commit's subject; "" where nothing is."""
    if len(subject) > LONGEST:
        return f"the subject has {len(subject)} characters, more than {LONGEST}"
    if not _SUBJECT.fullmatch(subject):
        return "the subject begins with the room that changes: `memory: ...`, `formats: ...`, `docs: ...`"
    return ""


def main() -> int:
    subject = Path(sys.argv[1]).read_text(encoding="utf-8").partition("\n")[0]
    found = fault(subject)
    if found:
        print(f"{found}\n    {subject}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
