"""The completion scripts: every verb describes its options, bash completes what it should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from memlint.cli import VERBS
from memlint.commands.completion import whole_parser
from tests.commands.running import memlint, write


def test_every_verb_describes_its_options() -> None:
    (verbs,) = (action.choices for action in whole_parser(VERBS)._actions if action.metavar == "COMMAND")

    assert list(verbs) == list(VERBS)  # type: ignore[call-overload]
    assert all("--help" in parser.format_help() for parser in verbs.values())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("memlint ch", {"check"}),
        ("memlint check --fo", {"--format", "--force-exclude"}),
        ("memlint check --color ''", {"auto", "always", "never"}),
        ("memlint check --select MEM00", {f"MEM00{digit}" for digit in range(10)}),
        ("memlint check --gpu RTX-4090-L", {"RTX-4090-Laptop"}),
        ("memlint check trai", {"train.yaml"}),
        ("memlint explain ATT00", {f"ATT00{digit}" for digit in range(1, 10)}),
        ("memlint completion z", {"zsh"}),
    ],
)
def test_bash_completes(tmp_path: Path, words: str, expected: set[str]) -> None:
    write(tmp_path, {"train.yaml": "a: 1\n", "memlint.bash": memlint(tmp_path, "completion", "bash").out})
    script = (
        f"source memlint.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '$(complete -p memlint | sed "s/.*-F \\([^ ]*\\).*/\\1/"); printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert set(done.stdout.split()) == expected
    assert "-o default -F" in (tmp_path / "memlint.bash").read_text(encoding="utf-8")


@pytest.mark.parametrize("shell", ["zsh", "fish", "powershell", "tcsh", "elvish", "nushell"])
def test_other_shells_have_a_script(tmp_path: Path, shell: str) -> None:
    done = memlint(tmp_path, "completion", shell)

    assert done.code == 0, done.err
    assert all(verb in done.out for verb in VERBS)
    program = shutil.which(shell)
    if program and shell in ("zsh", "fish"):
        subprocess.run([program, "-n"], input=done.out, text=True, check=True)
