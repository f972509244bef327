"""Reports of many files are packed: the same words in every format, each file once, and little memory."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.findings import Finding, Location
from memlint.lint import merge_reports as merging
from memlint.lint import packed_reports as packed
from memlint.lint.merge_reports import MANY, merge_reports
from memlint.lint.packed_reports import BLOCK, PackedSequence
from memlint.report.model import FileReport
from memlint.report.outputs import OUTPUTS

BASE = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\n"
ZERO = '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "none"}}, "bf16": {"enabled": false}}'


def finding(path: str, line: int, message: str = "x", **more: object) -> Finding:
    return Finding("MEM001", "memory/x", "error", message, Location(path, line, 1, line, 2), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_what_was_packed_comes_back(number: int) -> None:
    items = PackedSequence(range(number))

    assert list(items) == list(items) == list(range(number))
    assert len(items) == number
    for index in {0, BLOCK - 1, BLOCK, number - 1, -1, -number} & set(range(-number, number)):
        assert items[index] == range(number)[index]
    assert items[1:-1] == list(range(number))[1:-1]
    for beyond in (number, -number - 1):
        with pytest.raises(IndexError):
            items[beyond]


def test_what_cannot_be_pickled_is_kept_as_it_is() -> None:
    things = [(index, lambda: None) for index in range(2 * BLOCK + 1)]

    assert list(PackedSequence(things)) == things
    assert PackedSequence(things)[BLOCK] is things[BLOCK]


@pytest.mark.parametrize("seed", range(40))
def test_reports_merge_alike_one_by_one_and_all_at_once(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"f{index}" for index in range(draw.choice([3, 8, 200]))]
    reports = []
    for name in draw.choices(names, k=2 * len(names)) if seed % 4 == 0 else draw.sample(names, len(names)):
        places = [name if draw.random() < 0.8 else draw.choice([*names, "never linted"]) for _ in range(3)]
        related = ((Location(name, 1, 1, 1, 1), "see"),) * draw.randrange(3)
        found = tuple(finding(place, draw.randrange(3), related=related) for place in places)
        reports.append(FileReport(name, "trainer", found, texts={name: name}, suppressed=draw.randrange(3)))

    assert tuple(merge_reports(iter(reports), MANY + 1)) == tuple(merge_reports(iter(reports), 0))


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configs that share companions, with suppressions in settings, in a repository of their own."""
    (tmp_path / ".git").mkdir()
    for index in range(6):
        (tmp_path / f"{index:02}.yaml").write_text(
            f"{BASE}per_device_train_batch_size: {index + 1}\ndeepspeed: z{index % 3}.json\noutput_dir: o{index}\n"
        )
        (tmp_path / f"z{index % 3}.json").write_text(ZERO)
    (tmp_path / "memlint.yaml").write_text(
        "baseline: known.json\nsuppressions:\n  require_reason: true\n  files:\n"
        "    - {path: z0.json, ignore: [DSP001]}\n    - {path: z1.json, ignore: [MEM001], reason: none}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("baseline", [False, True])
def test_every_format_says_the_same_of_packed_reports(
    many: Path, baseline: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (many / ".out").mkdir()
    card = ("--gpu", "RTX4090", "--gpus", "2")
    command = ["check", *card, "--statistics", "--format", "text", "--output", "-"]
    for name in OUTPUTS:
        command += ["--format", name, "--output", f".out/{name}"]
    if baseline:
        main(["check", "--write-baseline", *card])
        for path in list(many.glob("0[1-3].yaml")):
            path.write_text(path.read_text() + "lora_alpa: 3\n")
        (many / "04.yaml").write_text("a: 1\n")
        capsys.readouterr()
    code = main(command)
    usual = capsys.readouterr()
    written = {path.name: path.read_bytes() for path in (many / ".out").iterdir()}
    assert written.keys() == OUTPUTS.keys()
    assert all(len(data) > 20 for data in written.values())
    monkeypatch.setattr(merging, "MANY", 0)
    monkeypatch.setattr(packed, "BLOCK", 2)

    assert main(command) == code
    assert capsys.readouterr() == usual
    assert {path.name: path.read_bytes() for path in (many / ".out").iterdir()} == written


def test_json_is_what_the_standard_library_writes(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["check", "--gpu", "RTX4090"], ["estimate"], ["check", "--exclude", "*"]):
        main([*verb, "--format", "json"])
        text = capsys.readouterr().out
        assert text == json.dumps(json.loads(text), indent=2) + "\n"


def test_a_packed_report_takes_little_memory() -> None:
    """The bar of benchmarks/speed/cold_start.py, held here without the time it takes: 1 KiB a report."""
    text = BASE * 8
    number = 40 * BLOCK
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = PackedSequence(
            FileReport(
                f"f{i}", "trainer", (finding(f"f{i}", i % 9, f"{i} GiB needed"),), texts={f"f{i}": f"# {i}\n{text}"}
            )
            for i in range(number)
        )
        assert len(kept) == number
        assert (tracemalloc.get_traced_memory()[0] - before) / number < 1024
    finally:
        tracemalloc.stop()
