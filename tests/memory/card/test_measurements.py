"""Stored measurements: what a file must hold to be read, and how a damaged one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.memory.card.measurements import FILE, Measurement, load

ROW = {"stack": "trl ddp", "metric": "nvidia-smi", "measured": 40, "predicted": 50, "path": "a.yaml"}


def stored(folder: Path, text: str) -> str:
    (folder / FILE).write_text(text, encoding="utf-8")
    return str(folder)


def test_a_folder_without_the_file_has_none(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == ()
    assert load(str(tmp_path / "absent")) == ()


def test_rows_are_read_in_order(tmp_path: Path) -> None:
    folder = stored(tmp_path, json.dumps([ROW, {**ROW, "measured": 41}]))
    assert load(folder) == (
        Measurement("trl ddp", "nvidia-smi", 40, 50, "a.yaml"),
        Measurement("trl ddp", "nvidia-smi", 41, 50, "a.yaml"),
    )


DAMAGED: list[Any] = [
    *(3, None, "text", {"rows": [ROW]}, [3], ["text"], [{}], [[ROW]]),
    *([{**ROW, "measured": value}] for value in ("much", None, 1.5, "1e9", [])),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_what_is_no_list_of_measurements_is_refused_by_the_files_name(content: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a list of measurements") as caught:
        load(stored(tmp_path, json.dumps(content)))
    assert str(tmp_path / FILE) in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_refused_by_the_files_name(data: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(data)
    with pytest.raises(ValueError, match="not a list of measurements"):
        load(str(tmp_path))


@pytest.mark.parametrize("name", ["measured", "predicted"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_measurement_of_nothing_is_refused(name: str, value: int, tmp_path: Path) -> None:
    """Ratios are taken of the two."""
    with pytest.raises(ValueError, match="not a list of measurements"):
        load(stored(tmp_path, json.dumps([{**ROW, name: value}])))
