"""`memory:` and `budgets:` of settings: what they say of the card reaches the figures, and the verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlint
from tests.commands.history import LLAMA
from tests.commands.running import memlint as command
from tests.commands.running import write

GIB = 1 << 30
MIB = 1 << 20


def estimated(folder: Path, settings: str, gpus: int = 1, gpu: str = "A100-80GB") -> memlint.Estimate:
    write(folder, {"memlint.yaml": settings, "train.yaml": LLAMA})
    return memlint.estimate(folder / "train.yaml", gpu=gpu, gpus=gpus)


def parts(found: memlint.Estimate) -> tuple[int, int, int]:
    """What PyTorch allocates, reserves beyond that, and what the card shows beyond that."""
    assert found.allocated_bytes and found.reserved_bytes and found.device_bytes
    beyond = found.reserved_bytes - found.allocated_bytes
    return found.allocated_bytes, beyond, found.device_bytes - found.reserved_bytes


def test_what_is_not_said_stays(tmp_path: Path) -> None:
    default = estimated(tmp_path, "")

    assert parts(default)[2] == 480 * MIB
    assert estimated(tmp_path, "memory: {}\n") == default


@pytest.mark.parametrize(
    ("settings", "gpus", "outside"),
    [
        ("context: 600MiB", 1, 600 * MIB),
        ("context: 1%", 1, int(0.01 * 80 * GIB)),
        ("context: 0", 1, 0),
        ("communication: 2GiB", 1, 480 * MIB),
        ("communication: 2GiB", 2, 480 * MIB + 2 * GIB),
        ("context: 1GiB, communication: 1GiB", 8, 2 * GIB),
    ],
)
def test_what_lies_outside_of_pytorch(settings: str, gpus: int, outside: int, tmp_path: Path) -> None:
    default = estimated(tmp_path, "", gpus)
    found = estimated(tmp_path, f"memory: {{{settings}}}\n", gpus)

    assert parts(found) == (*parts(default)[:2], outside)


def test_fragmentation_is_a_size_or_a_share_of_the_tensors(tmp_path: Path) -> None:
    allocated, _, context = parts(estimated(tmp_path, ""))

    assert parts(estimated(tmp_path, "memory: {fragmentation: 10%}\n")) == (allocated, int(0.1 * allocated), context)
    assert parts(estimated(tmp_path, "memory: {fragmentation: 3GiB}\n")) == (allocated, 3 * GIB, context)
    assert parts(estimated(tmp_path, "memory: {fragmentation: 0}\n")) == (allocated, 0, context)


def test_the_interval_lies_around_the_stated_figure(tmp_path: Path) -> None:
    default, found = (estimated(tmp_path, text) for text in ("", "memory: {context: 2GiB}\n"))

    assert (found.device_high_bytes or 0) - (default.device_high_bytes or 0) >= 2 * GIB - 480 * MIB
    assert (found.device_low_bytes or 0) >= (default.device_low_bytes or 0)


def test_safety_and_budgets_leave_less_of_the_card_whoever_names_it(tmp_path: Path) -> None:
    def budget(settings: str, gpu: str = "A100-80GB") -> int | None:
        return estimated(tmp_path, settings, gpu=gpu).budget_bytes

    usable = budget("") or 0
    assert budget("memory: {safety: 5%}\n") == usable - int(0.05 * usable)
    assert budget("memory: {safety: 2GiB}\n") == usable - 2 * GIB
    assert budget("budgets: {max_device_share: 0.5}\n") == int(0.5 * usable)
    assert budget("budgets: {max_device_memory: 10GiB}\nmemory: {safety: 1GiB}\n") == 10 * GIB
    small = budget("", "24GiB") or 0
    assert budget("gpu: H200\nbudgets: {max_device_share: 0.5}\n", "24GiB") == int(0.5 * small)


def test_the_verdict_follows(tmp_path: Path) -> None:
    found = estimated(tmp_path, "")
    assert found.fits
    free = (found.budget_bytes or 0) - (found.device_bytes or 0)

    assert not estimated(tmp_path, f"memory: {{safety: {free // MIB + 1}MiB}}\n").fits


def test_cards_that_are_named_as_large_enough_have_the_stated_context(tmp_path: Path) -> None:
    default, found = (estimated(tmp_path, text) for text in ("", "memory: {context: 40%, communication: 40%}\n"))

    assert default.fits_on
    assert found.fits_on != default.fits_on


def test_each_entry_is_shown_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, {"memlint.yaml": "memory: {context: 600MiB, safety: 5%}\n", "train.yaml": LLAMA})

    rows = command(tmp_path, "check", "--show-settings", "train.yaml").out.splitlines()

    assert [row.split() for row in rows if row.startswith("memory.")] == [
        ["memory.context", "600", "MiB", "memlint.yaml:1:19"],
        ["memory.safety", "5", "%", "memlint.yaml:1:35"],
    ]
    told = estimated(tmp_path, "memory: {context: 600MiB}\n").to_dict()["assumptions"]
    (context,) = [one for one in told if one["field"] == "hardware.context"]
    assert (context["value"], context["origin"].endswith("memlint.yaml:1:19")) == ("600 MiB", True)
