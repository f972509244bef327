"""Generated edits of launch scripts under the laws of writing: `python benchmarks/corpus/script_edits.py DATA [N]`.

DATA holds `repos/`, the files of each repository. For the launches of all scripts there, N edits (300 unless said) are
made: a value is set, a flag is added, a flag is removed. Each is placed, the result is held against laws 1 - 4
(memlint/fixes/laws.py) and given to `bash -n`. Printed are how many were placed, how many were refused with a reason,
and how many broke a law; exit 1 where one did.
"""

from __future__ import annotations

import collections
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.repository.workspace import on_disk
from memlint.source.document import Document

SUFFIXES = (".sh", ".bash", ".slurm", ".sbatch")
ADDED = {"gradient_checkpointing": True, "optim": "adamw_8bit", "dataloader_num_workers": 2, "max_grad_norm": 0.5}


def main() -> int:
    command = parser(__doc__)
    command.add_argument("data")
    command.add_argument("number", nargs="?", type=int, default=300)
    options = command.parse_args()
    return report(list(documents(Path(options.data) / "repos")), an_edit, shell_says, options.number)


def report(
    found: Sequence[Document],
    an_edit: Callable[[Document, random.Random], Edit | None],
    parser_says: Callable[[Document, str], list[str]],
    number: int,
) -> int:
    """Makes edits until `number` are placed, and prints what became of them; 1 where one broke a law.

    `parser_says`: what the language's own parser has against the new text of a document.
    """
    chance = random.Random(20)
    counts: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    while counts["placed"] + counts["broken"] < number and counts["refused"] < 20 * number:
        document = chance.choice(found)
        edit = an_edit(document, chance)
        if edit is None:
            continue
        try:
            placed = patches(document, (edit,))
        except CannotEdit as error:
            counts["refused"] += 1
            reasons[str(error)[:60]] += 1
            continue
        faults = [f"{law.law}: {law.detail}" for law in broken(document, (edit,), placed)]
        faults += parser_says(document, apply(document.text, placed))
        counts["broken" if faults else "placed"] += 1
        for fault in faults:
            print(f"{document.path}: {edit}: {fault}")
    print(f"{len(found)} runs: {counts['placed']} placed, {counts['refused']} refused, {counts['broken']} broke a law")
    for reason, times in reasons.most_common(8):
        print(f"  {times:5} {reason}")
    return 1 if counts["broken"] else 0


def documents(repositories: Path) -> Iterator[Document]:
    """The launches of all scripts that a format reads."""
    return (one for one in every_document(repositories, SUFFIXES) if one.start and one.start.format)


def every_document(repositories: Path, suffixes: tuple[str, ...]) -> Iterator[Document]:
    """What the files with these endings hold, repository by repository."""
    for repository in sorted(repositories.iterdir()):
        workspace = on_disk(str(repository), str(repository))
        for folder, _, names in os.walk(repository):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield from workspace.documents(os.path.relpath(os.path.join(folder, name), repository))


def an_edit(document: Document, chance: random.Random) -> Edit | None:
    """A random change of one launch."""
    kind = chance.choice(("set", "set", "add", "remove"))
    plain = [key for key, value in document.value.items() if isinstance(value, (int, float, bool, str))]
    if kind == "add":
        missing = [key for key in ADDED if key not in document.value]
        key = chance.choice(missing) if missing else ""
        return Edit(document.path, (key,), "set", ADDED[key]) if key else None
    if not plain:
        return None
    key = chance.choice(plain)
    if kind == "remove":
        return Edit(document.path, (key,), "remove", None)
    return Edit(document.path, (key,), "set", changed(document.value[key], chance))


def changed(value: Any, chance: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((1, 7, 100))
    if isinstance(value, float):
        return value * 2 + 0.25
    return chance.choice(("Qwen/Qwen2.5-7B", "a b", "it's", "adamw_8bit"))


def shell_says(document: Document, new: str) -> list[str]:
    """What bash's own parser has against a script that it took before; nothing where there is no bash."""
    bash = shutil.which("bash")
    if bash is None or _refused(bash, document.text):
        return []
    refused = _refused(bash, new)
    return [f"bash -n: {refused}"] if refused else []


def _refused(bash: str, text: str) -> str:
    done = subprocess.run([bash, "-n"], input=text.encode("utf-8", "surrogatepass"), capture_output=True, check=False)
    return done.stderr.decode("utf-8", "replace")[:200] if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
