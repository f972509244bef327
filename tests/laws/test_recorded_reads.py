"""What a check depends on is read through `memlint.file_access`, or the result cache gives wrong answers.

No module that a check may run reads a file, asks whether one exists or lists a folder by itself. The exceptions are
listed here, each with the reason why no kept result can be wrong for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import memlint

PACKAGE = Path(memlint.__file__).parent
# Rooms above `lint`: what they read decides what is asked and how it is shown, not what a check finds.
ABOVE = ("agents", "api", "commands", "lsp", "question", "revisions", "train", "cli.py", "__main__.py")

_OS = "access listdir lstat open readlink scandir stat walk fwalk"
_OS_PATH = "exists getatime getctime getmtime getsize isdir isfile islink ismount lexists realpath samefile"
READS = {
    *(f"os.{name}" for name in _OS.split()),
    *(f"os.path.{name}" for name in _OS_PATH.split()),
    *("open", "io.open", "io.FileIO", "shutil.which"),
}
MODULES = {"subprocess", "pathlib", "glob", "fileinput", "linecache", "configparser", "sqlite3", "zipfile", "tarfile"}

_OWN_DATA = "a data file of memlint: the key of a kept result names its size and time"
_FOUND_ANEW = "the files to check are looked for at each check; a result is kept for each file"
_RECORDED_AT_CALLER = "the workspace that asks for it records the answer"
_NOT_KEPT = "results of such a check are not kept"
_WRITES = "writes files; results are not kept of a run that does"
EXCEPTIONS = {
    "architectures/datafile.py": ({"open"}, _OWN_DATA),
    "formats/key_releases.py": ({"open"}, _OWN_DATA),
    "formats/schema/validate.py": ({"open"}, _OWN_DATA),
    "formats/torchtune/components.py": ({"open"}, _OWN_DATA),
    "formats/torchtune/shipped.py": ({"open"}, _OWN_DATA),
    "hardware/catalog.py": ({"open"}, _OWN_DATA),
    "memory/card/device.py": ({"open"}, _OWN_DATA),
    "memory/card/deviations.py": ({"open"}, _OWN_DATA),
    "memory/families/lookup.py": ({"open"}, _OWN_DATA),
    "memory/state/optimizers.py": ({"open"}, _OWN_DATA),
    "memory/layers/profile_stamps.py": ({"os.stat", "os.walk"}, _OWN_DATA),
    "memory/layers/stored_profiles.py": ({"open"}, _OWN_DATA),
    "memory/layers/record_profiles.py": ({"open"}, "writes memlint's own data when it is built"),
    "fixes/step_time.py": ({"open"}, _OWN_DATA),
    "report/html.py": ({"open"}, _OWN_DATA),
    "ruleset/shipped.py": ({"open"}, _OWN_DATA),
    "ruleset/snapshot.py": ({"os.stat"}, _OWN_DATA),
    "ruleset/stamps.py": ({"os.scandir"}, _OWN_DATA),
    "shipped_data.py": ({"os.path.isdir"}, _OWN_DATA),
    "ruleset/folder.py": ({"open", "os.walk"}, "somebody's own rules: `lint/rule_catalog.py` calls `cannot_record`"),
    "repository/files/commit.py": ({"subprocess"}, "reads a commit, for a comparison of two"),
    "repository/files/git.py": ({"subprocess"}, _RECORDED_AT_CALLER),
    "repository/files/tracked.py": ({"os.path.exists"}, _RECORDED_AT_CALLER),
    "repository/files/walk.py": ({"os.scandir"}, _RECORDED_AT_CALLER),
    "repository/files/discovery.py": (
        {"open", "os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.islink", "os.scandir"},
        _FOUND_ANEW,
    ),
    "repository/shipped_examples.py": ({"open"}, _FOUND_ANEW),
    "lint/select_files.py": ({"os.listdir", "os.path.exists"}, _FOUND_ANEW),
    "lint/plugin_choice.py": ({"os.path.isdir"}, _NOT_KEPT),
    "plugins/__init__.py": ({"os.path.isdir", "os.path.isfile"}, _NOT_KEPT),
    "lint/many/pool.py": ({"open"}, "asks how many processors there are"),
    "lint/preflight.py": ({"os.path.isfile"}, "chooses the files that `memlint run` checks"),
    "lint/baseline.py": ({"open", "os.path.exists"}, "applied to the results, not part of them"),
    "lint/settings_table.py": ({"open", "os.path.realpath"}, "prints the settings instead of a check"),
    "lint/rule_catalog.py": ({"os.path.realpath"}, "of the working directory, which the key of a kept result names"),
    "lint/settings_lookup.py": ({"os.path.realpath"}, "of the working directory, which the key of a kept result names"),
    "lint/projects.py": (
        {"os.path.islink", "os.path.realpath"},
        "a kept result is of a link, or of none; the working directory is named by the key",
    ),
    "lint/many/result_cache.py": (
        {"open", "os.listdir", "os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.islink"}
        | {"os.path.realpath", "os.stat", "os.walk"},
        "compares the kept answers with the disk",
    ),
    "settings/files.py": ({"os.stat"}, "tells a long-lived process when to read again; the bytes are recorded"),
    "fixes/write.py": ({"os.open", "os.path.islink", "os.path.lexists", "os.path.realpath"}, _WRITES),
    "fixes/edits/shell_opinion.py": ({"shutil.which", "subprocess"}, _WRITES),
    "atomic_files.py": ({"os.access", "os.open", "os.path.isdir", "os.path.realpath", "os.stat"}, _WRITES),
}


def modules() -> list[str]:
    names = (path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py")))
    return [name for name in names if name != "file_access.py" and name.partition("/")[0] not in ABOVE]


def reads(tree: ast.Module) -> Iterator[str]:
    """What a module uses that asks the disk, by its full name: called, or handed on."""
    names = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            name = _full_name(node, names)
            module = name.partition(".")[0]
            if name in READS or module in MODULES:
                yield module if module in MODULES else name


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that the module imports, and what they stand for; and the built-in `open`."""
    yield "open", "open"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                first = one.name.partition(".")[0]
                yield (one.asname, one.name) if one.asname else (first, first)
        elif isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def _full_name(node: ast.AST, names: dict[str, str]) -> str:
    """`os.path.isfile`, however it was imported; "" for what is no name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _full_name(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""


@pytest.mark.parametrize("name", modules())
def test_a_check_asks_the_disk_through_file_access(name: str) -> None:
    found = set(reads(ast.parse((PACKAGE / name).read_text("utf-8"))))
    allowed, _ = EXCEPTIONS.get(name, (set(), ""))
    assert found <= allowed, f"{name} reads past memlint/file_access.py: {sorted(found - allowed)}"


def test_exceptions_are_needed_and_have_reasons() -> None:
    known = set(modules())
    for name, (allowed, why) in EXCEPTIONS.items():
        assert name in known and why, name
        assert allowed == set(reads(ast.parse((PACKAGE / name).read_text("utf-8")))), name


@pytest.mark.parametrize(
    "source, found",
    [
        ("import os\nos.path.isfile('x')", {"os.path.isfile"}),
        ("from os import path\nlist(filter(path.exists, x))", {"os.path.exists"}),
        ("from os.path import isdir as there\nthere('x')", {"os.path.isdir"}),
        ("import os as system\nsystem.scandir('x')", {"os.scandir"}),
        ("open('x')", {"open"}),
        ("import pathlib\npathlib.Path('x').read_text()", {"pathlib"}),
        ("from pathlib import Path\nPath('x').exists()", {"pathlib"}),
        ("from subprocess import run\nrun(['git'])", {"subprocess"}),
        ("import os\nglob = 1\nglob.glob()\nos.path.join('a', 'b')\nself.open('x')\nfile_access.exists('x')", set()),
    ],
)
def test_the_scan_finds_each_way_to_ask(source: str, found: set[str]) -> None:
    assert set(reads(ast.parse(source))) == found
