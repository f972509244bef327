"""How many processes lint many files: no more than pay."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import memlint.lint.many.pool as pool
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.repository.files.discovery import FoundFile

CONFIG = "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: {}\n"


def make(folder: Path, number: int) -> list[FoundFile]:
    for index in range(number):
        (folder / f"run{index:03}.yaml").write_text(CONFIG.format(index + 1))
    return [FoundFile(str(folder / f"run{index:03}.yaml")) for index in range(number)]


@pytest.mark.parametrize("files", [pool.FIRST, pool.FIRST + 1, 5 * pool.FIRST - 1])
def test_what_loads_the_most_is_from_all_over_the_tree(files: int) -> None:
    first = pool._spread(files)

    assert len(set(first)) == pool.FIRST
    assert first[0] == 0
    assert files - 1 - files // pool.FIRST <= first[-1] < files


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_reports_of_workers_are_those_of_one_process(tmp_path: Path, jobs: int) -> None:
    files = make(tmp_path, 2 * pool.FIRST)
    linter = Linter(LintRequest(StatedFacts()))
    assert list(pool.lint_files(linter.request, files, jobs)) == [linter.lint_file(item.path) for item in files]


@pytest.mark.parametrize(
    ("others", "seconds", "processors", "processes"),
    [(0, 9.0, 8, 0), (1, 0.4, 8, 0), (32, 0.9, 8, 1), (32, 1.1, 8, 2), (320, 1.0, 8, 8), (320, 1.0, 1, 1)],
)
def test_no_worker_starts_for_less_work_than_its_start(
    others: int, seconds: float, processors: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`seconds`: what the first files took."""
    monkeypatch.setattr(pool, "_processors", lambda: processors)
    assert pool._processes(others, seconds, seconds) == processes


@pytest.mark.parametrize(("load", "got", "processes"), [(9.0, 0.5, 1), (9.0, 1.0, 4), (1.0, 0.5, 4)])
def test_none_starts_on_a_machine_that_has_more_to_do_than_processors(
    load: float, got: float, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`got`: the part of the time that this process had a processor; without others it waited for a disk alone."""
    monkeypatch.setattr(pool, "_processors", lambda: 4)
    monkeypatch.setattr(pool, "_load", lambda: load)
    assert pool._processes(1000, 1.0, got) == processes


@pytest.mark.parametrize(
    ("text", "processors"),
    [("max 100000", math.inf), ("200000 100000", 2), ("50000 100000", 0.5), ("", math.inf), ("1 0", math.inf)],
)
def test_the_time_that_a_container_may_use_counts(tmp_path: Path, text: str, processors: float) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert pool._quota(str(tmp_path / "cpu.max")) == processors
    assert pool._quota(str(tmp_path / "none")) == math.inf


def test_one_processor_at_least_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("10000 100000")
    monkeypatch.setattr(pool, "QUOTA", str(tmp_path / "cpu.max"))
    assert pool._processors() == 1
