"""Every memlint command that README and docs show is run, in a repository like the ones that they speak of."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memlint.cli import VERBS
from tests.commands.history import LLAMA
from tests.commands.running import memlint, write

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(ROOT / f"{name}.md" for name in ("CONTRIBUTING", "SECURITY"))]
PAGES += sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "rules")
_SHOWN = re.compile(rf"\bmemlint ((?:{'|'.join(sorted(VERBS, key=len, reverse=True))})\b(?! of| on)[^`\n|>;&]*)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
# What pages leave to the reader, as the repository below has it.
_MEANT = (
    (r"\\\n\s*|\n\s+(?=--)", " "),
    (r"FOLDER\b", "."),
    (r"out/memlint-run\.json", "train.yaml"),
    (r"FILE:LINE", "train.yaml:1"),
    (r"FILE\b|PATH \.\.\.", "train.yaml"),
    (r"SCRIPT\b", "train.ipynb"),
    (r"RULE\b|`RULE`", "MEM001"),
    (r"BASE \[HEAD\]", "main"),
    (r"\$\((?:Build|Agent)[^)]*\)/", ""),
    (r'"?(?:origin/)?\$[A-Z_]+"?|"?origin/\$\([^)]*\)"?|origin/main', "main"),
    (r'\)"? .*$', ""),  # what follows `$(memlint ...)`
    (r"\bconfigs?\b(?=\s|$)", "."),
    (r"[\"']", ""),
)


def shown() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for code in _CODE.findall(page.read_text(encoding="utf-8")):
            text = re.sub(*_MEANT[0], code)
            for found in _SHOWN.findall(text):
                yield page.name, meant(found)


def meant(command: str) -> str:
    for pattern, text in _MEANT[1:]:
        command = re.sub(pattern, text, command)
    return command.partition(" #")[0].strip()


# A verb alone is its name, where it wants more than that.
NAMES = ("diff", "new-rule", "explain", "plan", "calibrate", "simulate", "map")
COMMANDS = sorted({command: page for page, command in shown() if command not in NAMES}.items())


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    corp = (ROOT / "docs/plugins.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    notebook = (ROOT / "examples/python/train_qlora.py").read_text(encoding="utf-8")
    cells = {"cells": [{"cell_type": "code", "source": notebook}], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    write(tmp_path, {"train.ipynb": json.dumps(cells)})
    write(tmp_path, {"train.yaml": LLAMA, "memlint.yaml": "gpu: A100-80GB\ngpus: 1\n", "corp.py": corp})
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"),
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_pages_show_the_commands_that_matter() -> None:
    assert {command.split()[0] for command, _ in COMMANDS} >= {"check", "estimate", "fix", "plan", "diff", "explain"}


@pytest.mark.parametrize(("command", "page"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_shown_command_runs(repository: Path, command: str, page: str) -> None:
    words = command.split()
    if words[0] == "calibrate" and "--measured" not in words:
        words += ["--measured", "20GiB"]
    if words[0] == "run":
        words[1:1] = ["--dry-run"]
    if words[0] == "test" and "--plugin" not in words:
        words = ["test", *(str(ROOT / "rules" / "memory" / "MEM001.yaml") for _ in words[1:])]
    if any(word.startswith("examples") for word in words):
        repository = ROOT
    done = memlint(repository, *words)
    assert done.code in (0, 1), f"{page}: memlint {command}: {done.err}"
