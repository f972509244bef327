"""The real pre-commit, installing memlint from this tree: a commit that is refused, mended by hand, and passes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands.history import FULL, LLAMA, Repository, deepspeed
from tests.commands.running import ROOT

PACKAGED = (
    *("memlint", "rules", "schemas", "packaging", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"),
    ".pre-commit-hooks.yaml",
)
HOOK_SECONDS = 10  # far above what it takes, far below what people switch hooks off for


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    """This tree as a repository that pre-commit can clone, uncommitted work included."""
    repository = Repository(tmp_path / "memlint")
    ignored = shutil.ignore_patterns("__pycache__", "_shipped")
    for name in PACKAGED:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, repository.folder / name, ignore=ignored)
        else:
            shutil.copy(path, repository.folder / name)
    repository.commit("this tree")
    return repository


def test_a_commit_is_refused_then_mended_then_passes(tmp_path: Path, source: Repository) -> None:
    team = Repository(tmp_path / "team")
    for name, value in {"user.name": "Team", "user.email": "team@example.org"}.items():
        team.git("config", name, value)
    team.write(
        {
            ".pre-commit-config.yaml": f"repos:\n- repo: {source.folder}\n  rev: {source.git('rev-parse', 'HEAD')}\n"
            "  hooks: [{id: memlint}]\n",
            "memlint.yaml": "gpu: A100-80GB\ngpus: 8\nexclude: [old/]\nselect: [CFG, MEM]\n",
            "compose.yaml": "services: {web: {image: nginx}}\n",
            "old/broken.yaml": "model_name_or_path: [\n",
            "configs/lora.yaml": LLAMA,
            "configs/full.yaml": FULL,
            "configs/deepspeed/shared.json": deepspeed(3),
        }
    )

    def run(*command: str) -> tuple[int, str, float]:
        began = time.monotonic()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHONPATH"))}
        done = subprocess.run(
            command,
            cwd=team.folder,
            env={
                **clean,
                "PRE_COMMIT_HOME": str(tmp_path / "cache"),
                "PRE_COMMIT_COLOR": "never",
                "MEMLINT_PROFILES": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - began

    code, told, install = run(sys.executable, "-m", "pre_commit", "install", "--install-hooks")
    assert code == 0, told
    team.git("add", "-A")
    code, told, _ = run("git", "commit", "-m", "clean")
    assert code == 0, told

    (team.folder / "configs/lora.yaml").write_text(LLAMA.replace("batch_size: 1", "batch_size: 64"))
    shared = team.folder / "configs/deepspeed/shared.json"
    shared.write_text(deepspeed(3).replace("overlap_comm", "overlap_com"))
    team.git("add", "-A")
    code, told, hook = run("git", "commit", "-m", "bigger")
    assert code == 1, told
    assert re.search(r"configs/lora\.yaml:\d+:\d+: (error|warning) MEM0\d\d", told), told
    assert "configs/deepspeed/shared.json:11:5: error CFG001" in told
    assert "compose.yaml" not in told
    assert team.git("log", "--format=%s") == "clean"

    (team.folder / "configs/lora.yaml").write_text(LLAMA)
    shared.write_text(deepspeed(3))
    (team.folder / "configs/full.yaml").write_text(FULL.replace("cutoff_len: 4096", "cutoff_len: 2048"))
    team.git("add", "-A")
    code, told, _ = run("git", "commit", "-m", "smaller")
    assert code == 0, told
    assert team.git("log", "--format=%s") == "smaller\nclean"

    # A JSON that changes alone is judged through the runs that use it.
    shared.write_text(
        deepspeed(3).replace('"train_micro_batch_size_per_gpu": "auto"', '"train_micro_batch_size_per_gpu": 7')
    )
    team.git("add", "-A")
    code, told, _ = run("git", "commit", "-m", "only the json")
    assert code == 1, told
    assert "CFG008" in told
    assert "configs/full.yaml" in told

    assert hook < HOOK_SECONDS
    print(f"pre-commit: install {install:.1f} s, hook {hook:.2f} s")
