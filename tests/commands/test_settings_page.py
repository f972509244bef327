"""The page about settings: its example is valid, and --show-settings tells what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.commands.history import LLAMA
from tests.commands.running import ROOT, memlint, write

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
    assert rows["versions.trl"][1:] == ["0.29", "memlint.yaml:6:39"]
    assert rows["versions.peft"][1] == "0.15.2" and "(requirements.txt:1:1)" in rows["versions.peft"]


def test_an_unknown_key_names_the_one_that_was_meant(repository: Path) -> None:
    write(repository, {"memlint.yaml": "gpuss: 8\n"})
    done = memlint(repository, "check", "configs")
    assert done.code == 2 and "memlint.yaml:1:1" in done.err and "`gpus`" in done.err


def test_a_loop_of_extends_is_told(repository: Path) -> None:
    write(repository, {"lint/common.yaml": "extends: [../memlint.yaml]\n"})
    done = memlint(repository, "check", "--show-settings", "a.yaml")
    assert done.code == 2 and "extends" in done.err


def test_what_the_command_line_says_is_shown_above_settings(repository: Path) -> None:
    asked = [
        "--gpu",
        "H200",
        "--ignore",
        "MEM002",
        "--profile",
        "strict",
        "--versions",
        "trl=0.20",
        "--fail-on",
        "error",
    ]
    done = memlint(repository, "check", "--show-settings", "configs/train.yaml", *asked)
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.out.splitlines()}
    assert rows["gpu"] == ["H200", "command line"]
    assert rows["versions.trl"] == ["0.20", "command line"]
    assert rows["fail_on"] == ["error", "command line"]
    assert rows["profile"] == ["strict", "command line"]
    assert rows["ignore"][1].endswith("command line") and "MEM002" in done.out
    assert rows["gpus"][1].startswith("memlint.yaml:")


def test_the_files_own_comments_are_shown_above_settings(repository: Path) -> None:
    write(repository, {"configs/own.yaml": "a: 1\n# memlint: gpu=L4 gpus=2 trl=0.19 host_memory=64GiB\n"})
    rows = shown(repository, "configs/own.yaml")
    assert rows["gpu"][1:] == ["L4", "configs/own.yaml:2:1"]
    assert rows["versions.trl"][1:] == ["0.19", "configs/own.yaml:2:1"]
    assert rows["host_memory"][1] == "64GiB"


def test_no_settings_are_shown_where_none_are_read(repository: Path) -> None:
    done = memlint(repository, "check", "--isolated", "--show-settings", "configs/train.yaml")
    assert done.code == 0 and "memlint.yaml" not in done.out and "requirements.txt" not in done.out


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("rules_dirs: [lint/nowhere]\n", "memlint.yaml:1:13: `rules_dirs`: lint/nowhere is not there"),
        ("with: [nowhere.yaml]\n", "memlint.yaml:1:7: `with`: nowhere.yaml is not there"),
        ("severity: {MEM999: error}\n", "memlint.yaml:1:20: no rule is called 'MEM999'"),
        ("gpus: 8\nignore:\n  - MEM999\n", "memlint.yaml:3:3: no rule is called 'MEM999'"),
    ],
)
def test_what_is_not_there_is_told_with_its_place(tmp_path: Path, settings: str, said: str) -> None:
    write(tmp_path, {"memlint.yaml": settings, "train.yaml": LLAMA})
    done = memlint(tmp_path, "check", "train.yaml")
    assert (done.code, done.out) == (2, "") and said in done.err and "settings: " in done.err


def test_a_word_of_the_command_line_has_no_place_in_settings(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "ignore: [MEM002]\n", "train.yaml": LLAMA})
    done = memlint(tmp_path, "check", "train.yaml", "--ignore", "MEM999")
    assert done.err.startswith("memlint: no rule is called 'MEM999'")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("with=nowhere.yaml", "`with=nowhere.yaml`: there is no such file"),
        ("host_memory=lots", "'lots' is no size"),
        ("host_memory=64", "write it with its unit"),
    ],
)
def test_a_comment_that_cannot_be_used_is_told(tmp_path: Path, said: str, told: str) -> None:
    write(tmp_path, {"train.yaml": f"# memlint: {said}\n{LLAMA}"})
    found = memlint(tmp_path, "train.yaml", "--format", "concise").out
    assert "train.yaml:1:1: warning SUP004 " in found and told in found


def test_settings_may_name_the_card_of_a_plugin(tmp_path: Path) -> None:
    plugin = (
        "from memlint.hardware.model import Gpu\nMEMLINT_API = 1\n"
        "def register(registry):\n    registry.gpu(Gpu('Mine-1', 1 << 36, 1 << 36), ('mine',))\n"
    )
    write(tmp_path, {"memlint.yaml": "gpu: mine\nplugins: [own.py]\n", "train.yaml": LLAMA, "own.py": plugin})
    assert "1 x Mine-1" in memlint(tmp_path, "estimate", "train.yaml", "--allow-plugins", "--gpus", "1").out
    assert "unknown GPU 'mine'" in memlint(tmp_path, "estimate", "train.yaml").err
    write(tmp_path, {"memlint.yaml": "gpu: mine\n"})
    assert "1 x Mine-1" in memlint(tmp_path, "estimate", "train.yaml", "--plugin", "own.py", "--gpus", "1").out
