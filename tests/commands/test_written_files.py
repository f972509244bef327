"""What memlint leaves on the disk: reports, baselines and rule files, whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.history import LLAMA, Repository
from tests.commands.running import ROOT, memlint, write

BAD = LLAMA.replace("lora_rank", "lora_rnak")
OLD = "what was there\n"
# Each leaves more than a block of 1,024 bytes, where the disk of the tests is full.
WRITERS = {
    "report": (".", "--format", "json", "--output", "out.json"),
    "estimates": ("estimate", ".", "--format", "json", "--output", "out.json"),
    "changes": ("diff", "HEAD", "--format", "json", "--output", "out.json"),
    "baseline": (".", "--write-baseline", "--baseline", "out.json"),
}
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits, links and devices")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository whose files changed, so that every writer has something to say."""
    repository = Repository(tmp_path / "repository")
    repository.write({f"{number}.yaml": LLAMA for number in range(20)})
    repository.commit("first")
    repository.write({f"{number}.yaml": BAD.replace("batch_size: 1", "batch_size: 4") for number in range(20)})
    return repository.folder


def on_a_full_disk(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The shell's bound on the size of a file stands for the end of the disk."""
    line = 'ulimit -f 1; exec "$@"'
    return subprocess.run(
        ["bash", "-c", line, "bash", sys.executable, "-m", "memlint", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def empty_baseline() -> str:
    return '{"version": 1, "files": {}}\n'


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_old_file(folder: Path, name: str) -> None:
    old = empty_baseline() if name == "baseline" else OLD
    (folder / "out.json").write_text(old)
    before = sorted(os.listdir(folder))

    done = on_a_full_disk(folder, *WRITERS[name])

    assert done.returncode == 2
    assert "memlint: out.json: File too large\n" in done.stderr
    assert (folder / "out.json").read_text() == old
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_folder_is_told_and_not_made(folder: Path, name: str) -> None:
    *arguments, _ = WRITERS[name]

    done = memlint(folder, *arguments, "reports/out.json")

    assert done.code == 2
    assert done.err == f"memlint: reports/out.json: there is no folder {folder / 'reports'}\n"
    assert not (folder / "reports").exists()


@posix
@pytest.mark.parametrize("name", WRITERS)
def test_a_link_to_the_file_stays_a_link(folder: Path, name: str) -> None:
    (folder / "far").mkdir()
    (folder / "far" / "real.json").write_text(empty_baseline())
    (folder / "out.json").symlink_to("far/real.json")

    assert memlint(folder, *WRITERS[name]).code < 2

    assert (folder / "out.json").is_symlink()
    assert len((folder / "far" / "real.json").read_text()) > len(empty_baseline())


@posix
@pytest.mark.parametrize("name", ["report", "estimates", "changes"])
def test_a_report_may_go_to_standard_output_by_its_name(folder: Path, name: str) -> None:
    *arguments, _ = WRITERS[name]

    done = memlint(folder, *arguments, "/dev/stdout")

    assert done.code < 2
    assert json.loads(done.out)


@pytest.mark.parametrize("verb", [["check", "."], ["estimate", "."], ["diff", "HEAD"]])
def test_no_report_overwrites_what_was_linted(folder: Path, verb: list[str]) -> None:
    done = memlint(folder, *verb, "--format", "json", "--output", "3.yaml")

    assert (done.code, done.err) == (2, "memlint: 3.yaml: the report would overwrite a file that was linted\n")
    assert "lora_rnak" in (folder / "3.yaml").read_text()


def test_a_report_among_the_configs_is_written_again(folder: Path) -> None:
    """The next run finds it in the folder; it is no config."""
    for _ in range(2):
        assert memlint(folder, ".", "--format", "json", "--output", "out.json").code == 1
        assert memlint(folder, "estimate", ".", "--format", "json", "--output", "estimates.json").code == 0

    assert memlint(folder, "out.json", "--format", "json", "--output", "out.json").code == 2


@posix
@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_a_file_whose_name_is_no_text_is_accepted_and_stays_so(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "baseline: known.json\n"})
    (tmp_path / os.fsdecode(b"caf\xe9.yaml")).write_text(BAD)

    assert memlint(tmp_path).code == 1
    assert memlint(tmp_path, "--write-baseline").code == 0
    assert memlint(tmp_path).code == 0


def test_a_rule_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, {"rules/memory/MEM900.yaml": OLD})

    done = memlint(tmp_path, "new-rule", "memory/of-my-own", "--id", "MEM900")

    path = Path("rules", "memory", "MEM900.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"memlint: {path}: exists already: nothing was written\n"
    assert (tmp_path / path).read_text() == OLD


def test_a_rule_has_no_place_below_a_file(tmp_path: Path) -> None:
    write(tmp_path, {"rules": OLD})

    done = memlint(tmp_path, "new-rule", "memory/of-my-own")

    assert done.code == 2
    assert done.err.startswith(f"memlint: {Path('rules', 'memory')}: ")
    assert (tmp_path / "rules").read_text() == OLD
