"""Which folder a config's references may not leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import memlint.lint.projects as projects
from memlint.file_access import RealPaths
from memlint.lint.projects import Workspaces, project_root, real_folder


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What earlier tests found above a folder is forgotten."""
    monkeypatch.setattr(projects, "_real_paths", RealPaths())
    projects._repositories.clear()
    yield
    projects._repositories.clear()


def test_a_repository_is_the_project_wherever_one_stands(tmp_path: Path) -> None:
    (tmp_path / "work/.git").mkdir(parents=True)
    (tmp_path / "work/configs/deep").mkdir(parents=True)
    root = str(tmp_path / "work")

    for cwd in (root, str(tmp_path), f"{root}/configs", "/"):
        assert project_root(f"{root}/configs/deep", cwd) == root


def test_an_inner_repository_comes_first(tmp_path: Path) -> None:
    for name in (".git", "inner/.git", "inner/configs"):
        (tmp_path / name).mkdir(parents=True)
    assert project_root(str(tmp_path / "inner/configs"), str(tmp_path)) == str(tmp_path / "inner")


def test_without_a_repository_it_is_the_working_directory(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    assert project_root(str(folder), str(tmp_path)) == str(tmp_path)
    assert project_root(str(tmp_path), str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize(
    ("folder", "cwd", "root"),
    [
        ("/home/alice/run/configs", "/somewhere", "/home/alice"),
        ("/home/alice/run/configs", "/", "/home/alice"),
        ("/home/alice/run/configs", "/home", "/home/alice"),
        ("/home/alice/run", "/home/alice/ru", "/home/alice"),
        ("/etc", "/srv", "/etc"),
    ],
)
def test_outside_of_both_it_is_two_levels_below_the_root(folder: str, cwd: str, root: str) -> None:
    assert project_root(folder, cwd) == root


def test_a_linked_file_lies_where_its_target_does(tmp_path: Path) -> None:
    for name in ("real", "links"):
        (tmp_path / name).mkdir()
    (tmp_path / "real/a.yaml").write_text("")
    (tmp_path / "links/a.yaml").symlink_to(tmp_path / "real/a.yaml")
    (tmp_path / "folder").symlink_to(tmp_path / "real")

    assert real_folder(str(tmp_path / "links/a.yaml")) == str(tmp_path / "real")
    assert real_folder(str(tmp_path / "folder/a.yaml")) == str(tmp_path / "real")


def test_files_of_one_project_share_a_workspace(tmp_path: Path) -> None:
    for name in ("a/.git", "a/x", "b/.git"):
        (tmp_path / name).mkdir(parents=True)
    found = Workspaces(str(tmp_path))

    assert found.of("a/x/1.yaml") is found.of("a/2.yaml")
    assert found.of("a/x/1.yaml") is not found.of("b/1.yaml")
    only = found.of("b/1.yaml")
    assert Workspaces(str(tmp_path), only=only).of("a/x/1.yaml") is only
