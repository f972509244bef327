"""The files below a folder without git."""

from pathlib import Path

import pytest

from memlint.repository.files import walk


def test_nearest_first_without_hidden_folders_environments_and_links(tmp_path: Path) -> None:
    for name in ("b/run.md", "a.py", ".hidden/x.py", "venv/y.py", "b/c/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    found = [path.removeprefix(f"{tmp_path}/") for path in walk.files_below(str(tmp_path))]

    assert found == ["a.py", "b/run.md", "b/c/d.py"]
    assert list(walk.files_below(str(tmp_path / "none"))) == []


@pytest.mark.parametrize(
    ("bound", "most", "count"), [("MOST_FOLDERS", 0, 1), ("MOST_FOLDERS", 2, 3), ("MOST_FILES", 2, 2)]
)
def test_a_walk_ends_at_its_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, count: int
) -> None:
    for number in range(5):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "one").write_text("")
    (tmp_path / "first").write_text("")
    monkeypatch.setattr(walk, bound, most)

    assert len(list(walk.files_below(str(tmp_path)))) == count
