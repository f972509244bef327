"""`memlint calibrate` from the outside: what is kept, where, and what it changes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.history import LLAMA
from tests.commands.running import Done, memlint, write

CARD = ("--gpu", "A100-80GB", "--gpus", "1")


def interval(folder: Path) -> tuple[int, int, int]:
    found = json.loads(memlint(folder, "estimate", "a.yaml", *CARD, "--format", "json").out)
    estimate = found["runs"][0]["peak"]
    return estimate["device_low_bytes"], estimate["device_high_bytes"], estimate["allocated_bytes"]


def calibrate(folder: Path, measured: str, *more: str) -> Done:
    return memlint(folder, "calibrate", "a.yaml", "--measured", measured, *CARD, *more)


def test_three_measurements_of_a_stack_narrow_its_interval(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "", "a.yaml": LLAMA})
    low, high, allocated = interval(tmp_path)
    middle = (low + high) // 2 >> 20

    for offset in (0, 20, 40):
        assert calibrate(tmp_path, f"{middle + offset}MiB").code == 0

    narrow_low, narrow_high, still = interval(tmp_path)
    assert still == allocated
    assert narrow_high - narrow_low < high - low
    assert narrow_low <= (middle << 20) <= narrow_high
    assert "3 measurements of llamafactory single adapter" in memlint(tmp_path, "estimate", "a.yaml", *CARD).out


def test_two_measurements_change_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "", "a.yaml": LLAMA})
    before = interval(tmp_path)

    for _ in range(2):
        done = calibrate(tmp_path, "20GiB")

    assert interval(tmp_path) == before
    assert "1 more until its interval narrows" in done.out


def test_measurements_lie_beside_the_settings(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "", "configs/a.yaml": LLAMA})

    done = memlint(tmp_path, "calibrate", "configs/a.yaml", "--measured", "20GiB", *CARD)

    assert done.code == 0
    rows = json.loads((tmp_path / ".memlint-measurements.json").read_text(encoding="utf-8"))
    assert [(row["metric"], row["measured"]) for row in rows] == [("nvidia-smi", 20 << 30)]


def test_isolated_knows_no_measurements(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "", "a.yaml": LLAMA})
    before = memlint(tmp_path, "estimate", "a.yaml", "--isolated", *CARD).out
    for _ in range(3):
        calibrate(tmp_path, "40GiB")

    assert memlint(tmp_path, "estimate", "a.yaml", "--isolated", *CARD).out == before


def test_what_cannot_be_meant_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "", "a.yaml": LLAMA, ".memlint-measurements.json": "{]"})

    for done in (
        calibrate(tmp_path, "much"),
        calibrate(tmp_path, "20GiB"),
        memlint(tmp_path, "calibrate", "a.yaml"),
        memlint(tmp_path, "calibrate", "--measured", "20GiB"),
    ):
        assert done.code == 2
        assert done.err.startswith("memlint: ")
        assert "Traceback" not in done.err


def test_measurements_that_cannot_be_read_are_no_bug_of_memlint(tmp_path: Path) -> None:
    """A folder stands for a file of somebody else's, which root, who runs tests, may read."""
    write(tmp_path, {"memlint.yaml": "", "a.yaml": LLAMA})
    path = tmp_path / ".memlint-measurements.json"
    path.mkdir()

    for done in (memlint(tmp_path, "a.yaml", *CARD), calibrate(tmp_path, "20GiB")):
        assert (done.code, done.err) == (2, f"memlint: {path}: Is a directory\n")
