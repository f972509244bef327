"""`memlint check` from the outside: which files, which findings, which exit code, which outputs."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memlint.commands.check import SHOWS_FINDINGS_ALONE
from memlint.report.progress import watched
from tests.commands.history import FULL, LLAMA, deepspeed
from tests.commands.running import ROOT, memlint, write

BAD = LLAMA.replace("lora_rank", "lora_rnak")


def rules(out: str) -> list[tuple[str, str]]:
    return [(item["location"]["path"], item["rule"]) for item in json.loads(out)["findings"]]


def test_a_file_of_two_readers_has_each_finding_once(tmp_path: Path) -> None:
    shared = deepspeed(2).replace("overlap_comm", "overlap_com").replace('"auto"', "4", 2)
    write(tmp_path, {"a.yaml": FULL, "b.yaml": FULL, "configs/deepspeed/shared.json": shared})

    found = json.loads(memlint(tmp_path, "--format", "json", "--isolated").out)["findings"]

    places = [(item["rule"], item["location"]["path"], item["location"]["line"], item["message"]) for item in found]
    assert len(places) == len(set(places))
    assert [place for place in places if place[0] == "CFG001"] == [
        ("CFG001", "configs/deepspeed/shared.json", 11, "unknown key `overlap_com`: did you mean `overlap_comm`?")
    ]
    conflicts = [item for item in found if item["rule"] == "CFG008"]
    assert conflicts
    assert all(item["related"] for item in conflicts)


def test_a_finding_is_listed_under_the_file_it_points_to(tmp_path: Path) -> None:
    write(
        tmp_path, {"a.yaml": FULL, "configs/deepspeed/shared.json": deepspeed(2).replace("overlap_comm", "overlap_com")}
    )

    out = memlint(tmp_path, "a.yaml", "--format", "checkstyle").out

    assert '<file name="configs/deepspeed/shared.json"><error line="11"' in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 1),
        (["--exit-zero"], 0),
        (["--ignore", "CFG001"], 0),
        (["--select", "MEM"], 0),
        (["--no-such-option"], 2),
        (["nowhere.yaml"], 2),
        (["--format", "nothing"], 2),
        (["--gpu", "A1000-XL"], 2),
    ],
)
def test_exit_codes(tmp_path: Path, arguments: list[str], code: int) -> None:
    write(tmp_path, {"train.yaml": BAD})

    assert memlint(tmp_path, "check", *arguments).code == code


def test_settings_say_what_fails(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": BAD, "memlint.yaml": "severity: {CFG001: warning}\nfail_on: error\n"})

    assert memlint(tmp_path).code == 0
    assert memlint(tmp_path, "--fail-on", "warning").code == 1


def test_standard_input_goes_by_its_name(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"configs/train.yaml": LLAMA, "memlint.yaml": "overrides: [{files: [configs/**], ignore: [CFG001]}]\n"},
    )

    elsewhere = memlint(tmp_path, "-", "--stdin-filename", "train.yaml", "--format", "json", stdin=BAD)
    ignored = memlint(tmp_path, "-", "--stdin-filename", "configs/train.yaml", "--format", "json", stdin=BAD)

    assert rules(elsewhere.out) == [("train.yaml", "CFG001")]
    assert rules(ignored.out) == []


def test_standard_input_finds_what_it_references(tmp_path: Path) -> None:
    write(tmp_path, {"configs/deepspeed/shared.json": deepspeed(3)})

    out = memlint(tmp_path, "-", "--stdin-filename", "configs/full/new.yaml", "--format", "json", stdin=FULL).out

    assert json.loads(out)["runs"][0]["related"] == ["configs/deepspeed/shared.json"]


def test_files_that_are_no_configs_are_silent_unless_they_look_like_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "compose.yaml": "services:\n  web:\n   - broken: [\n",
            "train.yaml": "model_name_or_path: x\nper_device_train_batch_size: [\n",
            "data.json": '[{"text": "hello"}]',
        },
    )

    assert rules(memlint(tmp_path, "--format", "json").out) == [("train.yaml", "SRC001")]
    assert ("compose.yaml", "SRC001") in rules(memlint(tmp_path, "compose.yaml", "--format", "json").out)
    assert rules(memlint(tmp_path, "compose.yaml", "--hook", "--format", "json").out) == []


def test_excludes_and_who_they_concern(tmp_path: Path) -> None:
    write(tmp_path, {"old/a.yaml": BAD, "b.yaml": LLAMA, "memlint.yaml": "exclude: [old/]\n", "c.yaml": LLAMA})

    assert memlint(tmp_path, "--list-files").out == "b.yaml\nc.yaml\nmemlint.yaml\n"
    assert memlint(tmp_path, "--list-files", "--exclude", "c.yaml").out == "b.yaml\nmemlint.yaml\n"
    assert memlint(tmp_path, "--list-files", "old/a.yaml").out == "old/a.yaml\n"
    assert memlint(tmp_path, "--list-files", "--force-exclude", "old/a.yaml", "b.yaml").out == "b.yaml\n"
    assert memlint(tmp_path, "--list-files", "--force-exclude", "--exclude", "b.yaml", "b.yaml").out == ""
    assert memlint(tmp_path, "--list-files", str(tmp_path / "b.yaml"), "./b.yaml").out == "b.yaml\n"


def test_several_outputs_in_one_run(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": BAD})

    pairs = [
        "--format",
        "sarif",
        "--output",
        "a.sarif",
        "--format",
        "junit",
        "--output",
        "b.xml",
        "--format",
        "concise",
    ]
    done = memlint(tmp_path, *pairs)

    assert done.out.startswith("train.yaml:9:1: error CFG001")
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "CFG001"
    assert "<testsuites" in (tmp_path / "b.xml").read_text()


@pytest.mark.parametrize("name", SHOWS_FINDINGS_ALONE)
def test_an_output_is_the_same_beside_one_that_shows_more(name: str, tmp_path: Path) -> None:
    """A script's run in a configuration file, a companion and a finding with a fix: with text they come with runs."""
    script = "from transformers import TrainingArguments\nTrainingArguments(output_dir='o', gradient_checkpoint=True)\n"
    files = {"a.yaml": FULL, "b.yaml": BAD, "configs/deepspeed/shared.json": deepspeed(2), "train.py": script}
    write(tmp_path, {**files, "run.sh": "llamafactory-cli train a.yaml bf16=true\n"})

    alone = memlint(tmp_path, "--format", name).out
    beside = memlint(tmp_path, "--format", name, "--output", "-", "--format", "html", "--output", "report.html").out

    assert alone == beside
    assert "CFG001" in alone


def test_ways_out_are_looked_for_unless_told_not_to(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": LLAMA.replace("batch_size: 1", "batch_size: 64")})
    asked = ("--gpu", "RTX4090", "--gpus", "1", "--select", "MEM001", "--format", "json")

    with_fixes, without = (json.loads(memlint(tmp_path, *asked, *more).out) for more in ([], ["--no-fixes"]))

    assert [bool(item["fixes"]) for item in with_fixes["findings"]] == [True]
    assert [item["message"] for item in without["findings"]] == [item["message"] for item in with_fixes["findings"]]
    assert [item["fixes"] for item in without["findings"]] == [[]]


def test_a_report_never_overwrites_what_was_linted(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": BAD})

    assert memlint(tmp_path, "train.yaml", "--format", "json", "--output", "train.yaml").code == 2
    assert (tmp_path / "train.yaml").read_text() == BAD


def test_the_job_summary_has_what_annotations_have_no_room_for(tmp_path: Path) -> None:
    write(tmp_path, {f"{number:02}.yaml": BAD for number in range(12)})
    (tmp_path / "summary.md").write_text("before\n")

    out = memlint(tmp_path, "--format", "github", environment={"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}).out

    assert out.count("::error ") == 12
    assert "::notice title=memlint::2 more findings" in out
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("before\n### memlint")
    assert summary.count("error** CFG001") == 12


def test_comments_suppress_and_are_judged(tmp_path: Path) -> None:
    unused = "# memlint: ignore[MEM001] not here\n"
    write(
        tmp_path,
        {
            "a.yaml": BAD.replace("lora_rnak: 8", "lora_rnak: 8  # memlint: ignore[CFG001] on purpose"),
            "b.yaml": unused + LLAMA,
        },
    )

    told = json.loads(memlint(tmp_path, "--format", "json").out)

    assert rules(json.dumps(told)) == [("b.yaml", "SUP001")]
    assert told["summary"]["suppressed"] == 1


def test_settings_suppress_in_json_where_no_comment_can_stand(tmp_path: Path) -> None:
    waivers = (
        "suppressions:\n  files:\n"
        "    - {path: shared.json, ignore: [CFG001], pointer: /zero_optimization/overlap_com, reason: known}\n"
        "    - {path: shared.json, ignore: [CFG009], reason: nothing there}\n"
    )
    write(tmp_path, {"shared.json": deepspeed(2).replace("overlap_comm", "overlap_com"), "memlint.yaml": waivers})

    found = json.loads(memlint(tmp_path, "--format", "json").out)

    assert [(item["rule"], item["location"]["path"], item["location"]["line"]) for item in found["findings"]] == [
        ("SUP001", "memlint.yaml", 4)
    ]
    assert found["summary"]["suppressed"] == 1


def test_a_directive_names_the_card_and_an_unknown_card_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": "# memlint: gpu=RTX4090 gpus=2\n" + LLAMA, "b.yaml": "# memlint: gpu=RTX4091\n" + LLAMA})

    told = json.loads(memlint(tmp_path, "--format", "json").out)

    assert told["runs"][0]["hardware"]["gpu"] == "RTX 4090"
    assert told["runs"][0]["hardware"]["gpus"] == 2
    assert [(item["rule"], item["location"]["line"]) for item in told["findings"]] == [("SUP004", 1)]


def test_a_baseline_accepts_what_is_there_and_only_shrinks(tmp_path: Path) -> None:
    write(tmp_path, {"sub/a.yaml": BAD, "sub/b.yaml": BAD, "memlint.yaml": "baseline: known.json\n"})

    written = memlint(tmp_path, "--write-baseline")
    assert (written.code, written.err) == (0, f"memlint: 2 findings accepted in {tmp_path / 'known.json'}\n")
    assert memlint(tmp_path).code == 0
    assert memlint(tmp_path / "sub").code == 0

    write(tmp_path, {"sub/a.yaml": LLAMA, "sub/b.yaml": BAD.replace("lora_target", "lora_tarhet")})
    shrunk = memlint(tmp_path, "--format", "json")
    assert [item["message"] for item in json.loads(shrunk.out)["findings"]] == [
        "unknown key `lora_tarhet`: did you mean `lora_target`?"
    ]
    assert json.loads(shrunk.out)["notes"] == [
        "1 accepted finding is gone: run `memlint check --write-baseline` to shrink the baseline"
    ]

    (tmp_path / "known.json").write_text("[]")
    assert memlint(tmp_path).code == 2


def test_a_baseline_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A misspelt name accepts nothing, and looks as if nothing had been accepted."""
    write(tmp_path, {"a.yaml": BAD})
    done = memlint(tmp_path, "--baseline", "knwon.json")
    assert done.code == 1
    assert "baseline: knwon.json is not there, so no finding is accepted; --write-baseline writes it" in done.out


def test_output_is_the_same_for_any_workers_seed_locale_and_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "a much longer name" / "there"
    files = {f"{number:03}/train.yaml": BAD if number % 3 else FULL for number in range(24)}
    files |= {"configs/deepspeed/shared.json": deepspeed(2)}
    write(here, files)
    write(there, files)

    for name in ("json", "text", "html"):
        first = memlint(here, "--format", name, environment={"PYTHONHASHSEED": "1", "LC_ALL": "C"})
        second = memlint(
            there, "--format", name, "--jobs", "3", environment={"PYTHONHASHSEED": "77", "LC_ALL": "C.UTF-8"}
        )
        assert first == second, name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_for_terminals_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: next(now) / 2)
    slow, pipe = Terminal(), io.StringIO()

    assert list(watched(range(5), 5, slow)) == list(watched(range(5), 5, pipe)) == [0, 1, 2, 3, 4]
    assert pipe.getvalue() == ""
    assert "2 of 5 files" in slow.getvalue()
    assert "1 of 5" not in slow.getvalue()
    assert slow.getvalue().endswith("\x1b[2K")


def test_a_pipe_that_closes_is_no_crash(tmp_path: Path) -> None:
    write(tmp_path, {"train.yaml": BAD})
    command = f"{sys.executable} -m memlint train.yaml --format json | head -c 1"

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=False)

    assert (done.stdout, done.stderr) == (b"{", b"")


def test_what_is_wrong_with_a_launchers_option_stands_at_the_option(tmp_path: Path) -> None:
    command = "accelerate launch --config_file zero3.yaml --num_processes 8 train.py --bf16 True --output_dir out\n"
    trainer = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    trainer += (
        "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\nTrainer(args=args).train()\n"
    )
    write(tmp_path, {"train.sh": command, "train.py": trainer})
    assert "train.sh:1:33: warning REF001" in memlint(tmp_path, "train.sh").out
