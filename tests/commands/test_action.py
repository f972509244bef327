"""The GitHub Action: its steps run here as the runner runs them, with the environment that it gives them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.commands.history import LLAMA, Repository, deepspeed, team
from tests.commands.running import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


class Result(NamedTuple):
    code: int
    told: str
    outputs: dict[str, str]
    summary: str
    calls: str


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A stand-in for the runner's folders: memlint's environment is this one, gh writes down what it is asked."""
    bin_ = tmp_path / "venv" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    (bin_ / "gh").write_text(
        '#!/bin/sh\nprintf \'%s\\n\' "$*" >> "$GH_CALLS"\ncase "$*" in *--paginate*) cat "$GH_KNOWN" ;; esac\n'
    )
    for program in bin_.iterdir():
        program.chmod(0o755)
    (tmp_path / "known").write_text("")
    return tmp_path


def step(work: Path, folder: Path, name: str, inputs: dict[str, str], event: dict[str, str] | None = None) -> Result:
    """Runs the step of action.yml with that name; expressions of its `env` are filled from inputs and event."""
    (found,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
    defaults = {key: value["default"] for key, value in ACTION["inputs"].items()}

    def filled(expression: str) -> str:
        path = expression.strip("${} ")
        kind, _, key = path.partition(".")
        return (event or {})[path] if kind == "github" else {**defaults, **inputs}[key]

    files = {name: work / name for name in ("output", "summary", "calls")}
    for path in files.values():
        path.write_text("")
    base = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GITHUB_", "MEMLINT_"))}
    environment = {
        **base,
        **{key: filled(value) for key, value in found["env"].items()},
        "PATH": f"{work / 'venv' / 'bin'}:{os.environ['PATH']}",
        "MEMLINT_VENV": str(work / "venv"),
        "RUNNER_TEMP": str(work),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_OUTPUT": str(files["output"]),
        "GITHUB_STEP_SUMMARY": str(files["summary"]),
        "GITHUB_REPOSITORY": "team/configs",
        "GH_CALLS": str(files["calls"]),
        "GH_KNOWN": str(work / "known"),
        "CI": "true",
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", found["run"]],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = dict(line.split("=", 1) for line in files["output"].read_text().splitlines())
    return Result(done.returncode, done.stdout, outputs, files["summary"].read_text(), files["calls"].read_text())


def test_every_action_it_uses_is_pinned_and_no_input_is_ever_code() -> None:
    steps = ACTION["runs"]["steps"]

    assert all(re.fullmatch(r"[^@]+@[0-9a-f]{40}", step["uses"]) for step in steps if "uses" in step)
    assert [step["name"] for step in steps if "${{" in step.get("run", "")] == []


def test_lint_annotates_summarises_and_says_its_code(work: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "a b.yaml").write_text(LLAMA.replace("lora_rank", "lora_rnak"))
    hostile = "a b.yaml\n$(touch owned)\n"

    result = step(work, folder, "Lint", {"paths": "a b.yaml\n", "gpu": "H100", "sarif": "out.sarif"})
    never = step(work, folder, "Lint", {"fail-on": "never", "arguments": "--select\nCFG"})
    refused = step(work, folder, "Lint", {"paths": hostile})

    assert (result.code, result.outputs) == (1, {"exit-code": "1"})
    assert "::error file=a b.yaml,line=9," in result.told
    assert result.summary.startswith("### memlint")
    assert json.loads((folder / "out.sarif").read_text())["version"] == "2.1.0"
    assert (never.code, never.outputs) == (0, {"exit-code": "0"})
    assert refused.code == 2
    assert not (folder / "owned").exists()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, list[str]]:
    return team(tmp_path_factory.mktemp("team") / "repository")


def test_compare_writes_one_comment_and_edits_it_after_that(work: Path, history: tuple[Repository, list[str]]) -> None:
    repository, commits = history
    event = {
        "github.event.pull_request.base.sha": commits[2],
        "github.event.pull_request.number": "7",
        "github.token": "t",
    }

    first = step(work, repository.folder, "Compare", {"comment": "true", "token": "t"}, event)
    (work / "known").write_text("4711\n4712\n")
    second = step(work, repository.folder, "Compare", {"comment": "true", "token": "t"}, event)
    strict = step(work, repository.folder, "Compare", {"fail-on-regression": "true", "token": "t"}, event)

    assert (first.code, first.outputs) == (0, {"regression": "true"})
    assert first.summary.startswith("<!-- memlint-diff -->")
    assert "--method POST repos/team/configs/issues/7/comments" in first.calls
    assert "--method PATCH repos/team/configs/issues/comments/4711" in second.calls
    assert "POST" not in second.calls
    assert (strict.code, strict.calls) == (1, "")


def test_compare_fetches_what_a_shallow_checkout_lacks(work: Path, tmp_path: Path) -> None:
    origin = Repository(tmp_path / "origin")
    origin.write({"a.yaml": LLAMA, "ds.json": deepspeed(2)})
    base = origin.commit("first")
    origin.write({"a.yaml": LLAMA.replace("batch_size: 1", "batch_size: 16")})
    origin.commit("second")
    origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
    origin.git("clone", "-q", "--depth=1", f"file://{origin.folder}", str(tmp_path / "clone"))
    event = {"github.event.pull_request.base.sha": base, "github.event.pull_request.number": "7"}

    result = step(work, tmp_path / "clone", "Compare", {"gpu": "RTX4090", "gpus": "1", "token": ""}, event)

    assert (result.code, result.outputs) == (0, {"regression": "true"})
    assert "no common ancestor" in result.told
