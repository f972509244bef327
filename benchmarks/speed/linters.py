"""What a check costs beside yamllint and check-jsonschema: one table, one run, one machine.

    python benchmarks/speed/linters.py --memlint VENV --peers VENV [--published FOLDER] [--files 2000] [--write]

Both folders are virtual environments: one with memlint installed as a wheel and nothing else, one with the peers
(`pip install yamllint check-jsonschema`). An environment with more in it starts more slowly, whoever is asked.

Commands take turns, so that a slow moment hits them all; medians are printed. Processor seconds (user and system, of
the process and those it starts) stand beside wall time: they mean the same on a machine that does other things. Many
files are checked by one process (`--jobs 1`) and as `memlint check` does by default, with a process for each processor:
what that saves is wall time, which means little while other programs run. Memory is that of the process and its workers
together, pages that they share counted once (the sum of their PSS, asked every 20 ms; Linux). Where valgrind is
installed, the instructions of a start are counted as well: they are the same at each count.

Files that name cards are those of make_configs.py; many do not fit, so that plans are searched. `--published`: a
folder of configs as people publish them; its YAML files are measured again and again, each time with other numbers.
The repository is that of make_repository.py: what a hook costs that checks one changed config among many programs.
The peers estimate nothing, so this is the price of an answer beside the price of none. `--write` writes docs/speed.md.
"""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.speed import make_repository
from benchmarks.speed.make_configs import config, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "speed.md"
ANY_MAPPING = {"type": "object", "properties": {"cutoff_len": {"type": "integer"}, "bf16": {"type": "boolean"}}}
PYTHON_FILES, CONFIGS = 1500, 1000  # of the repository in which one config is checked
SMALL_CARD = "RTX4090"  # the checked run does not fit it, so that fixes are tried
ONE = ("--jobs", "1")
YAMLLINT = "yamllint"
JSONSCHEMA = "check-jsonschema"
NUMBER = re.compile(
    r"^(\s*(?:per_device_train_batch_size|gradient_accumulation_steps|cutoff_len|max_seq_length|max_length|lora_rank"
    r"|lora_r|seed|num_processes|logging_steps|save_steps)\s*:\s*)(\d+)",
    re.MULTILINE,
)
# Run with a check's arguments: prints JSON, the share of time of each package (built-in functions count for their
# callers).
PROFILE = """
import collections, contextlib, cProfile, json, os, pstats, sys
import memlint.cli
profile = cProfile.Profile()
with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    profile.runcall(memlint.cli.main, sys.argv[1:])
def package(place):
    parts = place[0].replace(os.sep, "/").rpartition("/memlint/")
    inner = parts[2].split("/")
    return f"memlint/{inner[0]}" if parts[1] and len(inner) > 1 else "memlint" if parts[1] else ""
shares = collections.Counter()
for place, (_, _, own, _, callers) in pstats.Stats(profile).stats.items():
    if package(place):
        shares[package(place)] += own
    else:
        for caller, (_, _, by_caller, _) in callers.items():
            shares[package(caller) or "other libraries"] += by_caller
total = sum(shares.values())
print(json.dumps({name: share / total for name, share in shares.most_common()}))
"""


@dataclass(frozen=True)
class Cost:
    """Medians of one command."""

    wall: float
    processor: float


@dataclass(frozen=True)
class Tools:
    """Where the programs are."""

    memlint: Path
    peers: Path

    def check(self, *words: str) -> list[str]:
        return [str(self.memlint / "bin" / "memlint"), "check", *words, "--format", "concise"]

    def yamllint(self, *words: str) -> list[str]:
        return [str(self.peers / "bin" / "yamllint"), *words]

    def jsonschema(self, schema: str, *words: str) -> list[str]:
        return [str(self.peers / "bin" / "check-jsonschema"), "--schemafile", schema, *words]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--memlint", required=True, type=Path)
    options.add_argument("--peers", required=True, type=Path)
    options.add_argument("--published", type=Path, help="a folder of YAML configs to vary")
    options.add_argument("--files", type=int, default=2000)
    options.add_argument("--starts", type=int, default=15, help="runs of each command that checks one file")
    options.add_argument("--runs", type=int, default=3, help="runs of each command that checks many")
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    tools = Tools(given.memlint.absolute(), given.peers.absolute())
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for line in page(tools, Path(name), given.published, given.files, given.starts, given.runs):
            print(line, flush=True)
            lines.append(line)
    if given.write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def page(tools: Tools, folder: Path, published: Path | None, files: int, starts: int, runs: int) -> Iterator[str]:
    """docs/speed.md, line by line."""
    yield "# Speed"
    yield ""
    yield "A check beside two linters that read the same files and estimate nothing. This page is written by"
    yield "`benchmarks/speed/linters.py --write`, and its docstring says how it measures: the commands take turns, and"
    yield f"medians count. Measured on {date.today():%Y-%m-%d} with Python {platform.python_version()} on"
    yield f"{_processors()} processors."
    yield ""
    yield "*Beside yamllint* is yamllint's time divided by the command's, by processor time and by wall time: more than"
    yield "1 is faster than it. Files a second are per second of processor time, and of wall time. yamllint and"
    yield "check-jsonschema use one processor; memlint uses them all, except where the row says otherwise."
    yield f"The machine's load was {os.getloadavg()[0]:.1f} when this began; wall time means little above 1."
    yield ""
    yield "## One config, cold"
    yield ""
    yield from _starts(tools, folder / "one", starts)
    yield ""
    yield f"## One config of a repository with {PYTHON_FILES:,} Python files and {CONFIGS:,} configs, cold"
    yield ""
    yield from _in_repository(tools, folder / "repository", starts)
    for title, tree, options in _trees(folder, published, files):
        yield ""
        yield f"## {title}"
        yield ""
        yield from _many(tools, tree, files, runs, options)
    yield ""
    yield "## Where the time goes"
    yield ""
    yield f"Shares of the time of checking the {files:,} configs that name cards, by package, as `cProfile` sees them."
    yield ""
    yield from _profile(tools, folder / "cards")


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _starts(tools: Tools, folder: Path, runs: int) -> Iterator[str]:
    folder.mkdir()
    (folder / "one.yaml").write_text(config(7))
    (folder / "schema.json").write_text(json.dumps(ANY_MAPPING))
    commands = {
        "`python -c pass`": [str(tools.memlint / "bin" / "python"), "-c", "pass"],
        "`memlint --version`": [str(tools.memlint / "bin" / "memlint"), "--version"],
        "`memlint check one.yaml`": [str(tools.memlint / "bin" / "memlint"), "check", "one.yaml"],
        YAMLLINT: tools.yamllint("one.yaml"),
        JSONSCHEMA: tools.jsonschema("schema.json", "one.yaml"),
    }
    yield from _cold(commands, folder, runs)


def _in_repository(tools: Tools, folder: Path, runs: int) -> Iterator[str]:
    make_repository.write(folder, PYTHON_FILES, CONFIGS)
    shown = Path("configs", "team20", "run_00020.yaml")
    text = config(20).partition("\n")[2]  # without its first line, which names a card
    (folder / shown).write_text(text)
    commands = {
        "`memlint check`, no card named": tools.check(str(shown), "--no-cache"),
        f"`memlint check --gpu {SMALL_CARD}`, with fixes": tools.check(str(shown), "--no-cache", "--gpu", SMALL_CARD),
        YAMLLINT: tools.yamllint(str(shown)),
    }
    yield from _cold(commands, folder, runs)


def _cold(commands: Mapping[str, Sequence[str]], folder: Path, runs: int) -> Iterator[str]:
    """A table of what one run of each command costs."""
    costs = in_turns(commands, folder, runs)
    counts = {name: instructions(command, folder) for name, command in commands.items()}
    yield "| command | processor, ms | wall, ms | instructions | beside yamllint | by instructions |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, cost in costs.items():
        counted, by_count = "", ""
        if (own := counts[name]) and (peer := counts[YAMLLINT]):
            counted, by_count = f"{own / 1e6:,.0f} M", f"{peer / own:.2f}"
        ratio = costs[YAMLLINT].processor / cost.processor
        times = f"{1000 * cost.processor:.0f} | {1000 * cost.wall:.0f}"
        yield f"| {name} | {times} | {counted} | {ratio:.2f} | {by_count} |"


def _trees(folder: Path, published: Path | None, files: int) -> Iterator[tuple[str, Path, Mapping[str, list[str]]]]:
    """Title, folder, and the options that memlint is measured with; the first is compared with the others."""
    if published is not None:
        vary(published, folder / "published" / "configs", files)
        options = {
            "no card named": [],
            "no card named, one process": [*ONE],
            "no fixes, one process": ["--no-fixes", *ONE],
        }
        yield f"{files:,} published configs", folder / "published", options
    write(folder / "cards" / "configs", files)
    title = f"{files:,} configs that name cards, with fixes"
    options = {"with fixes": [], "with fixes, one process": [*ONE], "no fixes, one process": ["--no-fixes", *ONE]}
    yield title, folder / "cards", options


def _many(tools: Tools, tree: Path, files: int, runs: int, options: Mapping[str, list[str]]) -> Iterator[str]:
    (tree / "schema.json").write_text(json.dumps(ANY_MAPPING))
    cache = str(tree.with_name(f"{tree.name}-cache"))  # what is written below the tree would change it
    listed = sorted(str(path.relative_to(tree)) for path in (tree / "configs").rglob("*.*") if path.is_file())
    commands = {f"memlint, {name}": tools.check("configs", "--no-cache", *more) for name, more in options.items()}
    commands["memlint, unchanged tree (cache)"] = tools.check("configs", "--cache-dir", cache)
    commands[YAMLLINT] = tools.yamllint("configs")
    commands[JSONSCHEMA] = tools.jsonschema("schema.json", *listed)
    costs = in_turns(commands, tree, runs)
    yield "| command | processor, s | wall, s | files a second | beside yamllint | peak memory, MiB |"
    yield "|---|---:|---:|---:|---:|---:|"
    peer = costs[YAMLLINT]
    for name, cost in costs.items():
        rate = f"{files / cost.processor:,.0f}, {files / cost.wall:,.0f}"
        ratio = f"{peer.processor / cost.processor:.2f}, {peer.wall / cost.wall:.2f}"
        peak = peak_mebibytes(commands[name], tree)
        yield f"| {name} | {cost.processor:.2f} | {cost.wall:.2f} | {rate} | {ratio} | {peak:.0f} |"


def _profile(tools: Tools, tree: Path) -> Iterator[str]:
    words = tools.check("configs", "--no-cache", *ONE)[1:]
    done = subprocess.run(
        [str(tools.memlint / "bin" / "python"), "-c", PROFILE, *words],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    yield "| package | share |"
    yield "|---|---:|"
    for name, share in json.loads(done.stdout).items():
        if share >= 0.01:
            yield f"| {name} | {share:.0%} |"


def in_turns(commands: Mapping[str, Sequence[str]], folder: Path, runs: int) -> dict[str, Cost]:
    """The medians of each command."""
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(runs + 1):  # the first warms the caches of the disk, and memlint's own
        for name, command in commands.items():
            costs[name].append(cost_of(command, folder))
    return {
        name: Cost(
            statistics.median(one.wall for one in found[1:]), statistics.median(one.processor for one in found[1:])
        )
        for name, found in costs.items()
    }


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    began, used = time.perf_counter(), _children()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return Cost(time.perf_counter() - began, _children() - used)


def _children() -> float:
    """Processor seconds of all processes that ended."""
    told = resource.getrusage(resource.RUSAGE_CHILDREN)
    return told.ru_utime + told.ru_stime


def peak_mebibytes(command: Sequence[str], folder: Path) -> float:
    """The peak of the process and those it starts, together."""
    peak = 0.0
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_mebibytes, _with_children(process.pid))))
            time.sleep(0.02)
    return peak


def _with_children(process: int) -> Iterator[int]:
    yield process
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in thread.read_text().split():
                yield from _with_children(int(child))


def _mebibytes(process: int) -> float:
    """The memory of a process, its part of what it shares with others."""
    try:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:  # it has ended
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


def instructions(command: Sequence[str], folder: Path) -> int | None:
    """Instructions that a command executes; None without valgrind."""
    if shutil.which("valgrind") is None:
        return None
    counting = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.devnull}", *command]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(counting, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if found else None


def vary(source: Path, folder: Path, files: int) -> None:
    """`files` files from the YAML files below `source`, no two with the same numbers."""
    originals = sorted(path for path in source.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
    for number in range(files):
        copy, original = number // len(originals), originals[number % len(originals)]
        text = original.read_text(encoding="utf-8", errors="surrogateescape")
        if copy:
            text = NUMBER.sub(partial(_raised, by=copy), text) + f"# copy {copy}\n"
        path = folder / f"copy-{copy}" / original.relative_to(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")


def _raised(found: re.Match[str], by: int) -> str:
    """The line of a key with another number."""
    number = int(found[2])
    return f"{found[1]}{number + by * (8 if number > 100 else 1)}"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise SystemExit(main())
