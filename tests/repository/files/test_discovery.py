from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.repository.files.discovery import MAX_JSON_BYTES, FoundFile, discover
from memlint.repository.files.globs import compile_globs, covers


def plant(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(root: Path, exclude: tuple[str, ...] = ()) -> list[str]:
    return [os.path.relpath(found.path, root) for found in discover([str(root)], exclude, str(root))]


def test_config_files_in_a_stable_order(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(["b/x.yaml", "a.yml", "c.json", "b/a/y.yaml", "z.txt", "A.YAML", "b.yaml"], ""))

    assert names(tmp_path) == ["a.yml", "b.yaml", "c.json", "b/x.yaml", "b/a/y.yaml"]


def test_what_nobody_wants_linted_is_passed_over(tmp_path: Path) -> None:
    folders = [".git", ".github", "node_modules", "venv", "myenv", "__pycache__"]
    plant(tmp_path, {f"{folder}/x.yaml": "" for folder in folders} | {"myenv/pyvenv.cfg": "", "ok/x.yaml": ""})

    assert names(tmp_path) == ["ok/x.yaml"]


def test_what_tools_save_beside_a_model_is_passed_over_unless_it_is_named(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(["tokenizer.json", "trainer_state.json", "ds.json", "tokenizer.yaml"], "{}"))

    assert names(tmp_path) == ["ds.json", "tokenizer.yaml"]
    assert [found.path for found in discover([str(tmp_path / "tokenizer.json")])] == [str(tmp_path / "tokenizer.json")]


def test_results_in_json_are_passed_over_by_their_size(tmp_path: Path) -> None:
    plant(tmp_path, {"results.json": "1" * (MAX_JSON_BYTES + 1), "ds.json": "1" * MAX_JSON_BYTES})

    assert names(tmp_path) == ["ds.json"]
    assert len(list(discover([str(tmp_path / "results.json")]))) == 1


def test_a_large_json_file_that_begins_like_a_config_is_noted(tmp_path: Path) -> None:
    rest = f'"notes": "{"1" * MAX_JSON_BYTES}"}}'
    config = '{"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}, "train_batch_size": 8, '
    results = '{"model": "m", "args": {"bf16": true, "output_dir": "o", "learning_rate": 1, "dataset": "d"}, '
    rows = '[{"bf16": true, "output_dir": "o", "learning_rate": 1, '
    plant(tmp_path, {"ds.json": config + rest, "results.json": results + rest, "rows.json": f"{rows}{rest}]"})

    (found,) = discover([str(tmp_path)])
    assert found.path.endswith("ds.json") and "128 KiB" in found.note and "name the file" in found.note


def test_jobs_of_schedulers_are_scripts_whatever_they_are_called(tmp_path: Path) -> None:
    plant(tmp_path, dict.fromkeys(["a.slrm", "b.pbs", "c.lsf", "d.job", "e.zsh", "f.txt"], "#!/bin/bash\n"))

    assert names(tmp_path) == ["a.slrm", "b.pbs", "c.lsf", "d.job", "e.zsh"]


def test_a_named_file_or_folder_always_passes(tmp_path: Path) -> None:
    plant(tmp_path, {".hidden/x.txt": "", ".hidden/y.yaml": "", ".gitignore": "*", ".git/HEAD": ""})
    named = str(tmp_path / ".hidden/x.txt")

    assert list(discover([named])) == [FoundFile(named, named=True)]
    assert names(tmp_path / ".hidden", ()) == []  # a named folder is walked, and git ignores all in it


def test_gitignore_with_negation_and_nesting(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            ".git/HEAD": "",
            ".git/info/exclude": "secret.yaml\n",
            ".gitignore": "# comment\n*.gen.yaml\n/top.yaml\nout/\n!keep.gen.yaml\ndocs/**/old.yaml\n\\#x.yaml\n",
            "sub/.gitignore": "!b.gen.yaml\nlocal.yaml\n",
            **dict.fromkeys(
                ["a.gen.yaml", "keep.gen.yaml", "top.yaml", "sub/top.yaml", "out/x.yaml", "sub/out/x.yaml"], ""
            ),
            **dict.fromkeys(
                ["sub/b.gen.yaml", "sub/local.yaml", "local.yaml", "docs/old.yaml", "docs/a/b/old.yaml"], ""
            ),
            **dict.fromkeys(["secret.yaml", "#x.yaml"], ""),
        },
    )

    assert names(tmp_path) == ["keep.gen.yaml", "local.yaml", "sub/b.gen.yaml", "sub/top.yaml"]
    assert names(tmp_path / "sub") == ["b.gen.yaml", "top.yaml"]


def test_gitignore_above_counts_only_inside_a_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "x.yaml", "sub/x.yaml": ""})

    assert names(tmp_path / "sub") == ["x.yaml"]


def test_exclude_is_counted_from_its_base_and_final(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "!a/x.yaml", **dict.fromkeys(["a/x.yaml", "a/b/x.yaml", "b/x.yaml", "c.json"], "")})

    assert names(tmp_path, ("a/**", "*.json")) == ["b/x.yaml"]


def test_symbolic_links_are_passed_over_and_loops_end(tmp_path: Path) -> None:
    plant(tmp_path, {"a/x.yaml": ""})
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "a/x.yaml")

    assert names(tmp_path) == ["a/x.yaml"]


def test_a_file_is_given_once(tmp_path: Path) -> None:
    plant(tmp_path, {"a/x.yaml": ""})
    file = str(tmp_path / "a/x.yaml")

    assert list(discover([file, str(tmp_path), str(tmp_path / "a")])) == [FoundFile(file, named=True)]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.yaml")
    errors = [
        found.error
        for name in ("none.yaml", "dangling.yaml", "pipe.yaml")
        for found in discover([str(tmp_path / name)])
    ]

    assert errors == ["no such file or folder", "a symbolic link that leads nowhere", "not a regular file"]


def test_the_current_folder_gives_plain_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"a/x.yaml": "", "y.yaml": ""})
    monkeypatch.chdir(tmp_path)

    assert [found.path for found in discover(["."])] == ["y.yaml", os.path.join("a", "x.yaml")]


def test_folders_of_any_depth(tmp_path: Path) -> None:
    (tmp_path / "/".join(["d"] * 300)).mkdir(parents=True)
    plant(tmp_path, {"/".join(["d"] * 300) + "/x.yaml": ""})

    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("*.yaml", "a/b.yaml", True),
        ("/*.yaml", "a/b.yaml", False),
        ("a", "a/b.yaml", True),
        ("a/", "a", False),
        ("a/", "a/b.yaml", True),
        ("a/*", "a/b/c.yaml", True),
        ("a/*/c.yaml", "a/b/c.yaml", True),
        ("a/*/c.yaml", "a/b/d/c.yaml", False),
        ("a/**/c.yaml", "a/c.yaml", True),
        ("a/**/c.yaml", "a/b/d/c.yaml", True),
        ("**/c.yaml", "c.yaml", True),
        ("**/b/**/d.yaml", "a/b/c/b/e/d.yaml", True),
        ("a/**", "a", False),
        ("[ab].yaml", "b.yaml", True),
        ("[!ab].yaml", "b.yaml", False),
        ("\\*.yaml", "x.yaml", False),
        ("\\*.yaml", "*.yaml", True),
        ("?.yaml", "ab.yaml", False),
        ("a.yaml ", "a.yaml", True),
    ],
)
def test_a_pattern_covers_a_path(pattern: str, path: str, taken: bool) -> None:
    assert covers(compile_globs([pattern]), path) is taken


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/" * 200 + "b", "[" * 500, "*?" * 300])
def test_no_pattern_takes_long(pattern: str) -> None:
    assert covers(compile_globs([pattern]), "a" * 250 + "/" + "/".join(["a"] * 100)) in (True, False)


def commit(root: Path, version: int, files: list[str]) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "add", "--force", "--", *files], check=True)
    subprocess.run(["git", "-C", str(root), "update-index", f"--index-version={version}"], check=True)


@pytest.mark.parametrize("version", [2, 4])
def test_what_git_tracks_is_not_ignored(tmp_path: Path, version: int) -> None:
    added = ["config/b.yaml", "config/deep/c.yaml", "x.gen.yaml", "vendor/y.yaml"]
    plant(tmp_path, dict.fromkeys(["a.yaml", "config/own.yaml", "configs/d.gen.yaml", *added], ""))
    plant(tmp_path, {".gitignore": "config/\n*.gen.yaml\nvendor/\n"})
    commit(tmp_path, version, added)

    assert sorted(names(tmp_path, ("vendor/",))) == ["a.yaml", "config/b.yaml", "config/deep/c.yaml", "x.gen.yaml"]


def test_an_index_that_is_none_tracks_nothing(tmp_path: Path) -> None:
    plant(tmp_path, {"a.yaml": "", ".gitignore": "a.yaml", ".git": "gitdir: elsewhere"})
    assert names(tmp_path) == []
    plant(tmp_path, {"elsewhere/index": "DIRC\0\0\0\2\0\0\0\t" + "a" * 80})
    assert names(tmp_path) == []


def test_a_repository_around_a_broken_one_is_not_asked(tmp_path: Path) -> None:
    plant(tmp_path, {"inner/config/b.yaml": "", "inner/.gitignore": "config/\n", "inner/.git/HEAD": "broken"})
    commit(tmp_path, 2, ["inner/config/b.yaml"])

    assert names(tmp_path / "inner") == []


def test_the_index_of_a_commit_in_the_making_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"config/b.yaml": "", ".gitignore": "config/\n"})
    commit(tmp_path, 2, ["config/b.yaml"])
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))

    assert names(tmp_path) == ["config/b.yaml"]


def test_without_git_it_is_said_that_what_is_ignored_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, {"a.yaml": "", "config/b.yaml": "", ".gitignore": "config/\n"})
    commit(tmp_path, 2, ["config/b.yaml"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["check", "--list-files"]) == 0

    told = capsys.readouterr()
    assert told.out == "a.yaml\n"
    assert told.err == (
        "memlint: git is not installed, or not on PATH: what git tracks in ignored folders is left out\n"
    )
