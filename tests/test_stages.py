"""Work in stages: the same results side by side as one after the other, and a row of files stays small."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint._stages import Stages, abreast, finished
from memlint.cli import main
from memlint.lint import pool
from memlint.repository.discovery import Found


def counted(stages: int, told: list[tuple[int, int]], name: int = 0) -> Stages[int]:
    for stage in range(stages):
        told.append((stage, name))
        yield
    return stages * 10 + name


@given(st.lists(st.integers(0, 5), max_size=8))
def test_results_are_those_of_one_after_the_other_and_stages_come_in_order(lengths: list[int]) -> None:
    told: list[tuple[int, int]] = []

    side_by_side = abreast([counted(length, told, name) for name, length in enumerate(lengths)])

    assert side_by_side == [finished(counted(length, [], name)) for name, length in enumerate(lengths)]
    assert told == sorted(told)


def test_what_a_stage_raises_comes_out() -> None:
    def failing() -> Stages[int]:
        yield
        raise KeyError("x")

    with pytest.raises(KeyError):
        finished(failing())
    with pytest.raises(KeyError):
        abreast([counted(3, []), failing()])


def test_a_row_holds_few_files_and_few_bytes_and_the_first_goes_alone(tmp_path: Path) -> None:
    sizes = [10] * 20 + [pool.BYTES, pool.BYTES + 1, 10, pool.BYTES - 10, 1]
    found = [Found(str(tmp_path / f"{index:02}"), named=True) for index in range(len(sizes))]
    for item, size in zip(found, sizes):
        Path(item.path).write_bytes(b" " * size)
    found.append(Found(str(tmp_path / "gone"), named=True))

    rows = list(pool._rows(found))

    assert [item for row in rows for item in row] == found
    assert [len(row) for row in rows] == [1, pool.ABREAST, 3, 1, 1, 2, 2]


@pytest.mark.parametrize("workers", [1, 3])
def test_reports_do_not_depend_on_the_rows(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for index in range(9):
        text = f"model_name_or_path: Qwen/Qwen2.5-{(7, 14)[index % 2]}B\nstage: sft\ncutoff_len: {2**index * 64}\n"
        (tmp_path / f"{index}.yaml").write_text(text + ("broken: [" if index == 4 else "") + "\n")

    def said(abreast: int, jobs: int) -> str:
        monkeypatch.setattr(pool, "ABREAST", abreast)
        out = io.StringIO()
        with redirect_stdout(out):
            main(["check", ".", "--gpu", "RTX4090", "--jobs", str(jobs), "--format", "json"])
        return out.getvalue()

    assert said(4, workers) == said(1, 1)
