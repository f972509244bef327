"""Elvish and Nushell read the completion scripts, and complete what they should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from memlint.cli import VERBS
from tests.commands.running import memlint, write
from tests.programs import needed

ELVISH_EDITOR = """\
var edit: = (ns [&completion:=(ns [&arg-completer=[&]]) &complete-filename~={|@words| put train.yaml }])
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ch", {"check", "train.yaml"}),
        ("fix --in", {"--interactive"}),
        ("check --color ''", {"auto", "always", "never"}),
        ("check --output ''", {"train.yaml"}),
        ("completion nu", {"nushell"}),
    ],
)
def test_elvish_completes(tmp_path: Path, words: str, expected: set[str]) -> None:
    """Run by Elvish itself; its line editor is replaced, which only a terminal has."""
    script = memlint(tmp_path, "completion", "elvish").out
    asked = f"\n$edit:completion:arg-completer[memlint] memlint {words} | each {{|word| echo $word }}"
    write(tmp_path, {"asked.elv": ELVISH_EDITOR + script + asked})
    done = subprocess.run(
        [needed("elvish"), "-norc", "asked.elv"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert not done.stderr
    assert expected <= set(done.stdout.split())


def test_nushell_declares_each_option_with_its_values(tmp_path: Path) -> None:
    script = memlint(tmp_path, "completion", "nushell").out

    assert 'export extern "memlint fix" [' in script
    assert '--color: string@"memlint completions check color"' in script
    assert "def \"memlint completions check color\" [] { ['auto' 'always' 'never'] }" in script
    assert "--quiet(-q)" in script
    if shutil.which("nu"):
        command = f"{script}\nscope externs | where name =~ '^memlint' | length"
        done = subprocess.run(["nu", "-n", "-c", command], capture_output=True, text=True, check=True)
        assert int(done.stdout) == len(VERBS) + 1
