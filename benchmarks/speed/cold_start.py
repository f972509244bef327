"""What memlint costs beside yamllint, check-jsonschema and ryl: medians and ratios of one run on one machine.

    python benchmarks/speed/cold_start.py --memlint VENV --peers VENV [--files 2000] [--many 0] [--runs 15]
        [--real FOLDER]

Both folders are virtual environments: one with memlint installed as a wheel and nothing else, one with the peers
(`pip install yamllint check-jsonschema ryl`). An environment with more in it starts more slowly, whoever is asked:
each `.pth` file of its site-packages runs first. Commands take turns, so that a slow moment hits them all.

The files of make_configs.py name a card each, and many do not fit it, so that plans are searched. `--real` measures a
folder of configs as people publish them as well: its YAML files again and again, each time with other numbers.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from make_configs import config, write

SCHEMA = {"type": "object", "properties": {"cutoff_len": {"type": "integer"}, "bf16": {"type": "boolean"}}}


def seconds(command: list[str], folder: Path) -> float:
    before = time.perf_counter()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - before


def peak_mebibytes(command: list[str], folder: Path) -> float:
    """The peak of the process and those it starts (Linux: ru_maxrss is in KiB)."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=-3, stderr=-3); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, capture_output=True, check=True)
    return int(done.stdout) / 1024


def in_turns(commands: dict[str, list[str]], folder: Path, runs: int) -> dict[str, float]:
    """The median of each command."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs + 1):  # the first warms caches
        for name, command in commands.items():
            times[name].append(seconds(command, folder))
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def starts(tool: Callable[[str], str], peer: Callable[[str], str], folder: Path, runs: int) -> dict[str, float]:
    (folder / "one.yaml").write_text(config(7))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    commands = {
        "python -c pass": [tool("python"), "-c", "pass"],
        "memlint --version": [tool("memlint"), "--version"],
        "memlint check one.yaml": [tool("memlint"), "check", "one.yaml"],
        "yamllint one.yaml": [peer("yamllint"), "one.yaml"],
        "check-jsonschema one.yaml": [peer("check-jsonschema"), "--schemafile", "schema.json", "one.yaml"],
        "ryl one.yaml": [peer("ryl"), "check", "--enable", "ALL", "one.yaml"],
    }
    return in_turns({name: command for name, command in commands.items() if Path(command[0]).exists()}, folder, runs)


_NUMBER = re.compile(
    r"^(\s*(?:per_device_train_batch_size|gradient_accumulation_steps|cutoff_len|max_seq_length|max_length|lora_rank"
    r"|lora_r|seed|num_processes|logging_steps|save_steps)\s*:\s*)(\d+)",
    re.MULTILINE,
)


def vary(source: Path, folder: Path, files: int) -> None:
    """`files` files from the YAML files below `source`, no two with the same numbers."""
    originals = sorted(path for path in source.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
    for number in range(files):
        copy, original = number // len(originals), originals[number % len(originals)]
        text = original.read_text(encoding="utf-8", errors="surrogateescape")
        if copy:
            text = _NUMBER.sub(lambda m, by=copy: f"{m[1]}{int(m[2]) + by * (8 if int(m[2]) > 100 else 1)}", text)
            text += f"# copy {copy}\n"
        path = folder / f"copy-{copy}" / original.relative_to(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")


def real(tool: Callable[[str], str], peer: Callable[[str], str], folder: Path, files: int) -> None:
    check = [tool("memlint"), "check", "configs", "--format", "concise", "--jobs", "1"]
    commands = {
        "memlint, no card named": check,
        "memlint --gpu A100-80GB": [*check, "--gpu", "A100-80GB"],
        "yamllint": [peer("yamllint"), "configs"],
    }
    found = in_turns(commands, folder, 3)
    for label, value in found.items():
        ratio = found["yamllint"] / value
        print(f"{files} real files, {label:24} {value:8.2f} {files / value:8.0f} files/s {ratio:8.2f} x yamllint")


def throughput(tool: Callable[[str], str], peer: Callable[[str], str], folder: Path, files: int) -> dict[str, float]:
    write(folder / "configs", files)
    check = [tool("memlint"), "check", "configs", "--format", "concise"]
    commands = {
        "memlint check --jobs 1": [*check, "--jobs", "1"],
        "memlint check": check,
        "yamllint": [peer("yamllint"), "configs"],
        "ryl": [peer("ryl"), "check", "--enable", "ALL", "configs"],
    }
    found = in_turns({name: one for name, one in commands.items() if Path(one[0]).exists()}, folder, 1)
    for name in ("concise", "text", "json"):
        alone = [tool("memlint"), "check", "configs", "--format", name, "--jobs", "1"]
        found[f"peak MiB, {name}"] = peak_mebibytes(alone, folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memlint", required=True, type=Path)
    parser.add_argument("--peers", required=True, type=Path)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--many", type=int, default=0, help="a second, larger number of files: is time per file equal?")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--real", type=Path, help="a folder of YAML configs to vary")
    given = parser.parse_args()

    def tool(name: str) -> str:
        return str((given.memlint / "bin" / name).absolute())

    def peer(name: str) -> str:
        return str((given.peers / "bin" / name).absolute())

    with tempfile.TemporaryDirectory() as name:
        one = starts(tool, peer, Path(name), given.runs)
        for label, value in one.items():
            print(f"{label:28} {value * 1000:8.1f} ms")
        print(f"{'--version / python':28} {one['memlint --version'] / one['python -c pass']:8.2f} x  (bar 2)")
        print(f"{'check / yamllint':28} {one['memlint check one.yaml'] / one['yamllint one.yaml']:8.2f} x  (bar 1)")
    alone: dict[int, float] = {}
    for number in filter(None, (given.files, given.many)):
        with tempfile.TemporaryDirectory() as name:
            many = throughput(tool, peer, Path(name), number)
            for label, value in many.items():
                rate = "" if "MiB" in label else f"{number / value:8.0f} files/s"
                print(f"{number} files, {label:24} {value:8.2f} {rate}")
            ratio = many["yamllint"] / many["memlint check --jobs 1"]
            print(f"{number} files, memlint / yamllint         {ratio:8.2f} x  (bar 5)")
            alone[number] = many["memlint check --jobs 1"] / number
    if given.real:
        with tempfile.TemporaryDirectory() as name:
            vary(given.real, Path(name) / "configs", given.files)
            real(tool, peer, Path(name), given.files)
    if given.many:
        longer = alone[given.many] / alone[given.files] - 1
        print(f"time a file, {given.many} against {given.files} files {longer:+8.1%}  (bar +10 %)")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
