"""What settings mean beyond their types: versions, sizes, and values that a schema cannot check."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.settings.meaning import host_memory_mistake, is_version, mistakes_of, size, strings, version
from memlint.settings.model import SettingsFile
from memlint.source import load


@pytest.mark.parametrize(
    ("text", "size_in_bytes"),
    [
        (512, 512),
        ("512", 512),
        ("512GiB", 512 << 30),
        ("512 GB", 512 * 10**9),
        ("1.5 tib", 3 << 39),
        ("2K", 2_000),
        ("2KiB", 2_048),
        ("", None),
        ("GiB", None),
        ("-1GiB", None),
        ("1e3", None),
        ("5 gigabytes", None),
    ],
)
def test_a_size(text: str | int, size_in_bytes: int | None) -> None:
    assert size(text) == size_in_bytes


@pytest.mark.parametrize(
    ("text", "good"),
    [("4", True), ("4.57.1", True), ("1.2.3.4.5.6.7", False), ("4.", False), ("v4", False), ("", False)],
)
def test_a_version(text: str, good: bool) -> None:
    assert is_version(text) is good
    assert not good or ".".join(map(str, version(text))) == text


def test_one_string_is_a_list_of_one() -> None:
    assert strings("a") == ["a"] and strings(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(("value", "part"), [("512GiB", ""), (1 << 28, ""), (512, "512"), ("many", "many")])
def test_the_memory_of_a_host(value: str | int, part: str) -> None:
    found = host_memory_mistake(value)
    assert part in found and bool(found) == bool(part)


def mistakes(text: str, folder: Path) -> list[tuple[int, str]]:
    document = load(text.encode(), "memlint.yaml", dialect="yaml12")[0]
    found = mistakes_of(SettingsFile(document, str(folder), str(folder)))
    return [(one.location.line, one.message) for one in found]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("gpu: H1000\n", 1, "H1000"),
        ("host_memory: 512\n", 1, "512"),
        ("\nignore: [mem_001]\n", 2, "mem_001"),
        ("severity:\n  not a rule: off\n", 2, "not a rule"),
        ("versions: {trl: new}\n", 1, "new"),
        ("overrides:\n- files: 'a'\n  gpu: H1000\n", 3, "H1000"),
    ],
)
def test_a_value_that_means_nothing_is_located(text: str, line: int, part: str, tmp_path: Path) -> None:
    ((found_line, message),) = mistakes(text, tmp_path)
    assert found_line == line and part in message


def test_good_values_have_no_mistakes(tmp_path: Path) -> None:
    text = "gpu: H100\ngpus: 8\nhost_memory: 512GiB\nignore: [MEM001, memory]\nversions: {trl: '1.0'}\n"
    assert mistakes(text, tmp_path) == []
