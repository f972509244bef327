"""What a release is made of: the version by tag, the workflow, the contents of what is built, the notes."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.commands.history import Repository
from tests.commands.test_precommit import PACKAGED

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


RELEASE = module(ROOT / "tools" / "release.py")


@pytest.fixture
def tree(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "tree")
    (repository.folder / "memlint").mkdir()
    (repository.folder / "memlint" / "__init__.py").write_text('__version__ = "1.2.0"\n', encoding="utf-8")
    shutil.copy(ROOT / "hatch_build.py", repository.folder)
    repository.commit("one")
    return repository


def version(tree: Repository) -> str:
    return str(module(tree.folder / "hatch_build.py").version())


def test_the_version_is_that_of_the_tag(tree: Repository) -> None:
    assert version(tree) == "1.2.0"  # no tag yet
    tree.git("tag", "v1.1.0")
    assert version(tree) == "1.2.0"  # the tag of another version
    tree.git("tag", "-a", "v1.2.0", "-m", "a release")
    assert version(tree) == "1.2.0"
    (tree.folder / "more").write_text("")
    tree.commit("two")
    assert re.fullmatch(r"1\.2\.0\.post1\+g[0-9a-f]{7,}", version(tree))


def test_a_tree_without_git_has_a_version(tree: Repository) -> None:
    tree.git("tag", "v1.2.0")
    (tree.folder / "more").write_text("")
    tree.commit("two")
    inner = tree.folder / "unpacked"  # an sdist that was unpacked inside of somebody's repository
    (inner / "memlint").mkdir(parents=True)
    for name in ("hatch_build.py", "memlint/__init__.py"):
        shutil.copy(tree.folder / name, inner / name)

    assert module(inner / "hatch_build.py").version() == "1.2.0"
    shutil.rmtree(tree.folder / ".git")
    assert version(tree) == "1.2.0"


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.name for path in WORKFLOWS])
def test_a_workflow_trusts_nothing_that_can_change(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    workflow: dict[str, Any] = yaml.safe_load(text)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]

    assert workflow["permissions"] == {}
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in steps if "uses" in step)
    assert all("# v" in line for line in text.splitlines() if "uses:" in line)
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []
    assert all(
        step["with"]["persist-credentials"] is False for step in steps if "actions/checkout@" in step.get("uses", "")
    )


def test_nothing_is_uploaded_without_a_tag() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    only_tags = "github.ref_type == 'tag'"

    uploads = [(job, step) for job in workflow["jobs"].values() for step in job["steps"] if _uploads(step)]
    assert uploads
    for job, step in uploads:
        # A job with a condition of its own may run where those that it needs were skipped.
        above = [] if "if" in job else [workflow["jobs"][need] for need in _needs(job)]
        conditions = [str(one.get("if")) for one in (step, job, *above)]
        assert any(only_tags in condition for condition in conditions), step


def _uploads(step: dict[str, Any]) -> bool:
    run, uses = step.get("run", ""), step.get("uses", "")
    return "docker push" in run or "gh release create" in run or "pypi-publish" in uses or "attest@" in uses


def _needs(job: dict[str, Any]) -> list[str]:
    return [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])


def test_pages_and_the_recipe_name_this_version() -> None:
    assert list(RELEASE.places_that_name_the_version(RELEASE.stated_version())) == []


def test_the_recipe_asks_for_what_the_project_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("dependencies = [")[2].partition("\n]")[0]
    wanted = {re.sub(r"[ ;\"].*", "", line.strip().lstrip('"')) for line in project.splitlines() if '"' in line}

    listed = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert wanted <= listed, wanted - listed


def test_notes_are_those_of_the_version() -> None:
    assert RELEASE.notes("0.1.0").strip()
    assert "## [" not in RELEASE.notes("0.1.0")


def test_the_mirror_has_the_hooks_of_the_project_and_pins_the_version(tmp_path: Path) -> None:
    RELEASE.mirror(tmp_path / "mirror", "1.2.0")

    hooks = yaml.safe_load((tmp_path / "mirror" / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in hooks] == ["memlint", "memlint-fix"]
    project = (tmp_path / "mirror" / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dependencies = ["memlint @ git+https://github.com/OWNER/memlint@v1.2.0"]' in project


def test_a_wheel_holds_what_runs_and_nothing_else(tmp_path: Path) -> None:
    """Built here, without a network and from a copy: `nox -s release-dry-run` builds and installs it for itself."""
    copy = tmp_path / "copy"
    for name in (*PACKAGED, "CHANGELOG.md", "tests/test_house.py"):
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "_shipped"))
        else:
            shutil.copy(source, target)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path / "dist")],
        cwd=copy,
        env={**os.environ, "MEMLINT_PROFILES": "1"},
        check=True,
    )
    (wheel,), (sdist,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")

    assert list(RELEASE.contents(wheel, sdist)) == []
    assert not (copy / "memlint/_shipped").exists()  # those of an editable install would be outdated
