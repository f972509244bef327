"""Configurations on disk: folders, adapters, and the cache of huggingface_hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.architectures.local import LARGEST_CONFIG, adapter_base, cached, config_of, folder, read_json


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.mark.parametrize(
    "data", [b"", b"[1]", b"null", b"{", b"\xff", b"[" * 200_000, b'{"a": "' + b"x" * LARGEST_CONFIG + b'"}']
)
def test_what_is_no_object_of_usual_size_is_none(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(data)
    assert read_json(str(tmp_path / "config.json")) is None
    assert config_of(str(tmp_path)) is None


def test_a_folder_in_place_of_the_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert config_of(str(tmp_path)) is None


def test_a_config_comes_with_its_path(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"model_type": "llama"})
    assert config_of(str(tmp_path)) == (str(tmp_path / "config.json"), {"model_type": "llama"})


def test_a_folder_is_looked_for_below_each_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b/model").mkdir(parents=True)
    bases = [str(tmp_path / "a"), str(tmp_path / "b")]
    monkeypatch.setenv("HOME", str(tmp_path))

    assert folder("model", bases) == str(tmp_path / "b/model")
    assert folder(str(tmp_path / "b"), []) == folder("~/b", []) == str(tmp_path / "b")
    for name in ("other", "", "  ", "a\0b", "m" * 5_000):
        assert folder(name, bases) is None


@pytest.mark.parametrize(
    ("value", "base"),
    [
        ({"base_model_name_or_path": "org/m"}, "org/m"),
        ({"base_model_name_or_path": ""}, None),
        ({"base_model_name_or_path": 3}, None),
        ({}, None),
    ],
)
def test_the_base_of_an_adapter(value: Any, base: str | None, tmp_path: Path) -> None:
    write(tmp_path / "adapter_config.json", value)
    assert adapter_base(str(tmp_path)) == base


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_the_cache_is_where_huggingface_hub_has_it(
    variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    write(tmp_path / below / "models--org--m/snapshots/a/config.json", {"n": 1})

    found = cached("org/m")
    assert found is not None and found[1] == {"n": 1}


def test_the_snapshot_of_main_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--org--m"
    for name in ("a", "b"):
        write(root / f"snapshots/{name}/config.json", {"n": name})
    found = cached("org/m")
    assert found is not None and found[1] == {"n": "a"}

    (root / "refs").mkdir()
    (root / "refs/main").write_text("b\n")
    found = cached("org/m")
    assert found is not None and found[1] == {"n": "b"}


@pytest.mark.parametrize("name", ["../../etc", "a/b/c", "", "a b", "x" * 200, "org/absent"])
def test_other_names_are_not_looked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert cached(name) is None
