"""The page about settings: its example is valid, and --show-settings tells what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from running import ROOT, memlint, write

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```yaml\n(gpu:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {
            "memlint.yaml": EXAMPLE,
            "lint/common.yaml": "gpus_per_node: 4\nfail_on: error\n",
            "requirements.txt": "peft==0.15.2\ntrl==0.15.2\n",
            ".git/HEAD": "ref: refs/heads/main\n",
        },
    )
    return tmp_path


def shown(folder: Path, path: str) -> dict[str, list[str]]:
    done = memlint(folder, "check", "--show-settings", path)
    assert done.code == 0, done.err
    return {line.split()[0]: line.split() for line in done.out.splitlines()}


def test_the_example_holds(repository: Path) -> None:
    rows = shown(repository, "configs/train.yaml")
    assert rows["gpu"][1:] == ["H100-80GB", "memlint.yaml:1:6"]
    assert rows["gpus_per_node"][1] == "8"  # the file's own word before what it extends
    assert rows["fail_on"][1] == "warning"
    assert rows["severity.CFG006"][1] == "off"


def test_a_later_override_wins(repository: Path) -> None:
    rows = shown(repository, "configs/laptop/train.yaml")
    assert (rows["gpu"][1], rows["gpus"][1]) == ("RTX4090", "1")
    assert "memory/tight" in rows["ignore"]


def test_versions_that_the_repository_pins_are_shown_where_settings_say_nothing(repository: Path) -> None:
    rows = shown(repository, "configs/train.yaml")
    assert rows["versions.trl"][1:] == ["0.29", "memlint.yaml:5:39"]
    assert rows["versions.peft"][1] == "0.15.2" and "(requirements.txt:1:1)" in rows["versions.peft"]


def test_an_unknown_key_names_the_one_that_was_meant(repository: Path) -> None:
    write(repository, {"memlint.yaml": "gpuss: 8\n"})
    done = memlint(repository, "check", "configs")
    assert done.code == 2 and "memlint.yaml:1:1" in done.err and "`gpus`" in done.err


def test_a_loop_of_extends_is_told(repository: Path) -> None:
    write(repository, {"lint/common.yaml": "extends: [../memlint.yaml]\n"})
    done = memlint(repository, "check", "--show-settings", "a.yaml")
    assert done.code == 2 and "extends" in done.err
