"""Mutation scores of the packages where a silent mistake would hurt most: how many planted faults the tests notice.

python benchmarks/robustness/mutants.py                    every room, 60 faults each, in a copy of this checkout
python benchmarks/robustness/mutants.py source -n 200      one room, more faults
python benchmarks/robustness/mutants.py --write            the table goes into docs/quality.md

cosmic-ray plants the faults (pip install cosmic-ray), a seed draws the sample. Survivors are printed with their place;
those that change nothing a test could see are listed in benchmarks/data/equivalent_mutants.tsv (module, the line as
planted, why).
"""

from __future__ import annotations

import argparse
import compileall
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = ROOT / "benchmarks" / "data" / "equivalent_mutants.tsv"
PAGE = ROOT / "docs" / "quality.md"
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"


# Faults that change nothing: `X | Y` stands in annotations, which nobody evaluates; enumerated words and None are one
# object each, so that `is` and `==` agree.
IDLE = (
    "core/ReplaceBinaryOperator_BitOr_%",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
)
IDLE += ("core/ReplaceComparisonOperator_Eq_Is", "core/ReplaceComparisonOperator_NotEq_IsNot")


class Room(NamedTuple):
    """`modules`: what faults are planted in. `tests`: patterns of the tests that have to notice, the quickest first."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "source": Room(
        ("memlint/source",),
        (
            "tests/source/test_*.py",
            "tests/fixes/test_edits.py",
            "tests/hostile/test_loader_bounds.py",
            "tests/laws/test_source_laws.py",
        ),
    ),
    "suppressions": Room(
        ("memlint/suppressions/apply.py", "memlint/suppressions/directives.py"),
        (
            "tests/suppressions/test_*.py",
            "tests/laws/test_suppression_laws.py",
            "tests/commands/test_check.py",
        ),
    ),
    "expressions": Room(
        tuple(f"memlint/expressions/{path.name}" for path in sorted((ROOT / "memlint/expressions").glob("*.py"))),
        (
            "tests/expressions/test_*.py",
            "tests/laws/test_expression_laws.py",
            *(f"tests/ruleset/test_{name}.py" for name in ("rule_file", "index", "snapshot", "engine")),
            "tests/ruleset/test_shipped_rules.py",
        ),
    ),
    "edits": Room(
        tuple(f"memlint/fixes/{name}.py" for name in ("edits", "yaml_edits", "json_edits", "pieces", "laws")),
        (
            *(f"tests/fixes/test_{name}.py" for name in ("edits*", "laws", "planner", "write", "attach")),
            "tests/laws/test_edit_model_laws.py",
            "tests/laws/test_edit_laws.py",
        ),
    ),
}


class Mutant(NamedTuple):
    id: str
    module: str
    operator: str
    line: int
    outcome: str = ""
    diff: str = ""


def copy_of_checkout(folder: Path) -> Path:
    """A copy to plant faults in: this checkout stays as it is."""
    copy = folder / "checkout"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "__pycache__", ".hypothesis", ".mypy_cache", ".ruff_cache", "site"
    )
    shutil.copytree(ROOT, copy, ignore=ignored)
    compileall.compile_dir(copy / "memlint", quiet=2)
    return copy


def configure(copy: Path, room: Room, timeout: float) -> Path:
    tests = " ".join(str(path.relative_to(copy)) for pattern in room.tests for path in sorted(copy.glob(pattern)))
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider --hypothesis-seed=0 {tests}"
    paths = ", ".join(f'"{module}"' for module in room.modules)
    config = copy / "mutants.toml"
    config.write_text(
        f"[cosmic-ray]\nmodule-path = [{paths}]\ntimeout = {timeout}\nexcluded-modules = []\n"
        f'test-command = "{command}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    return config


def cosmic_ray(copy: Path, *words: str) -> str:
    # Tests that start memlint in another process meet the fault too; a cache of byte code could hide one.
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["cosmic-ray", *words], cwd=copy, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise SystemExit(f"cosmic-ray {' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


def sample(session: Path, size: int, seed: int) -> int:
    """Keeps `size` faults of the session; returns how many there were."""
    with sqlite3.connect(session) as database:
        for operator in IDLE:
            ids = "select job_id from mutation_specs where operator_name like ?"
            database.execute(f"delete from work_items where job_id in ({ids})", (operator,))
            database.execute("delete from mutation_specs where operator_name like ?", (operator,))
        jobs = sorted(row[0] for row in database.execute("select job_id from work_items"))
        dropped = set(jobs) - set(random.Random(seed).sample(jobs, min(size, len(jobs))))
        for table in ("mutation_specs", "work_items"):
            database.executemany(f"delete from {table} where job_id = ?", [(job,) for job in dropped])
    return len(jobs)


def outcomes(session: Path) -> Iterator[Mutant]:
    query = (
        "select s.job_id, s.module_path, s.operator_name, s.start_pos_row, r.test_outcome, r.diff "
        "from mutation_specs s join work_results r on r.job_id = s.job_id"
    )
    with sqlite3.connect(session) as database:
        for row in database.execute(query):
            yield Mutant(*row)


def run_room(name: str, size: int, seed: int) -> tuple[int, list[Mutant]]:
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_checkout(Path(folder))
        config, session = configure(copy, ROOMS[name], 120.0), copy / "session.sqlite"
        cosmic_ray(copy, "init", str(config), str(session))
        cosmic_ray(copy, "baseline", str(config))  # tests that fail without a fault would notice every one
        possible = sample(session, size, seed)
        cosmic_ray(copy, "exec", str(config), str(session))
        cosmic_ray(copy, "baseline", str(config))  # nor did a busy machine fail them meanwhile
        return possible, list(outcomes(session))


def known_equivalent() -> set[tuple[str, str]]:
    """(module, the planted line) of faults that change nothing that can be seen."""
    if not EQUIVALENT.exists():
        return set()
    rows = (line.split("\t") for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#"))
    return {(row[0], row[1]) for row in rows}


def planted(mutant: Mutant) -> str:
    """The line as the fault writes it."""
    added = [
        line[1:].strip() for line in mutant.diff.splitlines() if line.startswith("+") and not line.startswith("+++")
    ]
    return added[0] if added else mutant.operator


def table(names: list[str], size: int, seed: int) -> str:
    lines = [
        "| package | possible faults | drawn | noticed | judged equal | missed | score |",
        "|---|---|---|---|---|---|---|",
    ]
    equal = known_equivalent()
    for name in names:
        possible, found = run_room(name, size, seed)
        survivors = [one for one in found if "SURVIVED" in one.outcome.upper()]
        missed = [one for one in survivors if (one.module, planted(one)) not in equal]
        noticed, judged = len(found) - len(survivors), len(survivors) - len(missed)
        score = noticed / max(1, len(found) - judged)
        lines.append(f"| {name} | {possible} | {len(found)} | {noticed} | {judged} | {len(missed)} | {score:.0%} |")
        for one in missed:
            print(f"{one.module}:{one.line}: {one.operator}\n{one.diff}\n", file=sys.stderr)
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", default=list(ROOMS), metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("-n", type=int, default=60, help="faults a room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    text = table(given.rooms, given.n, given.seed)
    print(text)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
