"""Workers: the same reports in the same order, and none left when the check ends, however it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

import memlint.lint.many.workers as workers
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.repository.files.discovery import FoundFile

CONFIG = "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: {}\n"


def make(folder: Path, number: int) -> list[FoundFile]:
    for index in range(number):
        (folder / f"run{index:03}.yaml").write_text(CONFIG.format(index + 1))
    return [FoundFile(str(folder / f"run{index:03}.yaml")) for index in range(number)]


@pytest.mark.parametrize("forks", [workers.FORKS, False])
@pytest.mark.parametrize(("number", "processes"), [(1, 2), (70, 2), (70, 4)])
def test_the_reports_are_those_of_one_process(
    tmp_path: Path, number: int, processes: int, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "FORKS", forks)
    files = make(tmp_path, number)
    linter = Linter(LintRequest(StatedFacts()))
    alone = [linter.lint_file(item.path) for item in files]
    assert list(workers.lint_with_workers(linter, files, processes)) == alone
    assert active_children() == []


def test_the_first_file_with_broken_settings_is_told_after_those_before_it(tmp_path: Path) -> None:
    files = make(tmp_path, 40)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memlint.yaml").write_text("gpu: 17\n")
        (tmp_path / name / "run.yaml").write_text(CONFIG.format(1))
    files[20] = FoundFile(str(tmp_path / "a" / "run.yaml"))
    files[3] = FoundFile(str(tmp_path / "b" / "run.yaml"))
    reports = workers.lint_with_workers(Linter(LintRequest(StatedFacts())), files, 2)
    assert [next(reports).report.path for _ in range(3)]
    with pytest.raises(UsageError, match=r"b/memlint\.yaml"):
        next(reports)
    assert active_children() == []


def test_a_worker_that_was_killed_is_told(tmp_path: Path) -> None:
    files = make(tmp_path, 70)
    reports = workers.lint_with_workers(Linter(LintRequest(StatedFacts())), files, 2)
    next(reports)
    for worker in active_children():
        worker.kill()
    with pytest.raises(UsageError, match="a worker was killed"):
        list(reports)
    assert active_children() == []


def test_who_stops_asking_leaves_no_worker(tmp_path: Path) -> None:
    reports = workers.lint_with_workers(Linter(LintRequest(StatedFacts())), make(tmp_path, 70), 3)
    next(reports)
    reports.close()  # type: ignore[attr-defined]
    assert active_children() == []


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals of POSIX")
def test_ctrl_c_leaves_no_worker_and_no_traceback(tmp_path: Path) -> None:
    make(tmp_path, 400)
    command = [sys.executable, "-m", "memlint", "check", str(tmp_path), "--jobs", "2", "--no-cache", "--gpu", "RTX4090"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment
    )
    while process.poll() is None and len(members(process.pid)) < 2:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    assert members(process.pid) == []


def members(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = status.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(status.parent.name)
    return found


def test_tasks_cover_every_file_once_and_end_small() -> None:
    tasks = list(workers._tasks(2000, 2))
    assert [number for task in tasks for number in task] == list(range(2000))
    assert len(tasks[0]) == workers.FILES_A_TASK
    assert len(tasks[-1]) == 1
