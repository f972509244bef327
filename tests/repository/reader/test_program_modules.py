"""Which files of a repository a Python program is made of."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from memlint.repository.reader.program_modules import MOST_MODULES, Sources, installed_commands, modules


def names(files: Mapping[str, str], program: str = "train.py") -> list[str]:
    sources = Sources(
        lambda word, seen_from: [word] if word in files else [],
        lambda name: files[name].encode(),
        {},
    )
    return [script.path for script in modules([program], sources)]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import own", "own.py"),
        ("import os, own.config as c", "own/config.py"),
        ("from own import config", "own/config.py"),
        ("from own.config import load as read", "own/config.py"),
        ("from own import (\n    a,\n    config,\n)", "own/config.py"),
        ("    from own import config  # late", "own/config.py"),
        ("from own import load", "own/__init__.py"),
        ("import own", "src/own.py"),
        ('run(["python", "tools/train.py"])', "tools/train.py"),
        ('run(["python", "-m", "own.cli"])', "own/cli.py"),
    ],
)
def test_what_a_program_imports_or_names_belongs_to_it(text: str, module: str) -> None:
    assert names({"train.py": text, module: ""}) == ["train.py", module]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from .config import load", "own/sub/config.py"),
        ("from ..config import load", "own/config.py"),
        ("from . import config", "own/sub/config.py"),
    ],
)
def test_relative_imports(text: str, module: str) -> None:
    assert names({"own/sub/train.py": text, module: ""}, "own/sub/train.py") == ["own/sub/train.py", module]


def test_modules_import_each_other_and_there_may_be_many() -> None:
    ring = {f"m{number}.py": f"import m{(number + 1) % 60}" for number in range(60)}
    found = names({**ring, "train.py": "import m0"})
    assert len(found) == len(set(found)) == MOST_MODULES


def test_commands_that_packages_install() -> None:
    toml = '[project.scripts]\nown-train = "own.cli:main"\n'
    setup = 'setup(entry_points={"console_scripts": ["old-train = own.old:main"]})\n'
    assert installed_commands([toml, setup]) == {"own-train": "own.cli", "old-train": "own.old"}
