"""Workers: as many as processors are idle, the same reports in the same order, and none left after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memlint.lint.pool as pool
from memlint.lint.request import LintRequest, StatedFacts
from memlint.repository.discovery import FoundFile

CONFIG = "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: {}\n"


def make(folder: Path, number: int) -> list[FoundFile]:
    for index in range(number):
        (folder / f"run{index:03}.yaml").write_text(CONFIG.format(index + 1))
    return [FoundFile(str(folder / f"run{index:03}.yaml")) for index in range(number)]


def test_reports_come_in_order_whatever_the_number_of_workers(tmp_path: Path) -> None:
    files = make(tmp_path, 40)
    alone, shared = (list(pool.lint_files(LintRequest(StatedFacts()), files, jobs)) for jobs in (1, 3))
    assert [one.report.path for one in alone] == [item.path for item in files]
    assert alone == shared


@pytest.mark.parametrize(("load", "workers"), [(0.0, 4), (0.9, 4), (1.2, 3), (4.0, 1), (30.0, 1)])
def test_no_worker_starts_for_a_processor_that_is_in_use(
    load: float, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(pool, "_processors", lambda: 4)
    assert pool._idle_processors() == workers


@pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals of POSIX")
def test_ctrl_c_leaves_no_worker_and_no_traceback(tmp_path: Path) -> None:
    make(tmp_path, 400)
    command = [sys.executable, "-m", "memlint", "check", str(tmp_path), "--jobs", "2", "--no-cache", "--gpu", "RTX4090"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment
    )
    while process.poll() is None and len(members(process.pid)) < 3:
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
