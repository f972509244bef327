"""Reports of many files: each finding once, and the same words in every format whether they are packed or not."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from memlint.cli import main
from memlint.findings import Finding, Location
from memlint.lint.many import merge_reports as merging
from memlint.lint.many import packed_reports as packed
from memlint.lint.many.merge_reports import MANY, merge_reports
from memlint.report.model import FileReport, ModelFacts, RunReport
from memlint.report.outputs import OUTPUTS

BASE = "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: full\ncutoff_len: 4096\n"
ZERO = '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "none"}}, "bf16": {"enabled": false}}'


def finding(path: str, line: int, message: str = "x", **more: object) -> Finding:
    return Finding("MEM001", "memory/x", "error", message, Location(path, line, 1, line, 2), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_reports_merge_alike_one_by_one_and_all_at_once(seed: int) -> None:
    draw = random.Random(seed)
    names = [f"f{index}" for index in range(draw.choice([3, 8, 200]))]
    reports = []
    for name in draw.choices(names, k=2 * len(names)) if seed % 4 == 0 else draw.sample(names, len(names)):
        places = [name if draw.random() < 0.8 else draw.choice([*names, "never linted"]) for _ in range(3)]
        related = ((Location(name, 1, 1, 1, 1), "see"),) * draw.randrange(3)
        found = tuple(finding(place, draw.randrange(3), related=related) for place in places)
        report = FileReport(name, "trainer", found, texts={name: name}, suppressed=draw.randrange(3))
        starts = tuple(draw.choices(names, k=draw.choice((0, 0, 0, 1))))
        reports.append(report._replace(trains=(("m", draw.choice(("train", "predict"))),), starts=starts))

    assert tuple(merge_reports(iter(reports), MANY + 1)) == tuple(merge_reports(iter(reports), 0))


def test_what_another_finding_says_in_full_is_not_said_twice() -> None:
    alone = FileReport("z.json", "deepspeed", (finding("z.json", 3, "no weights"), finding("z.json", 4, "no weights")))
    other = finding("z.json", 3, "other", key="MEM001:other")
    named = FileReport("a.yaml", "trainer", (finding("z.json", 3, "no weights (9 GiB)"), other))
    merged = {report.path: report for report in merge_reports([alone, named])}
    said = [(item.location.line, item.message) for item in merged["z.json"].findings]
    assert said == [(3, "no weights (9 GiB)"), (3, "other"), (4, "no weights")]


def test_of_two_findings_that_outdo_each_other_the_more_severe_one_is_told() -> None:
    grave = finding("z.json", 3, "no product")
    longer = finding("z.json", 3, "no product unless copies are divided")._replace(severity="warning")
    reports = [FileReport("z.json", "deepspeed", (longer,)), FileReport("a.sh", "trainer", (grave,))]
    assert [item for one in merge_reports(reports) for item in one.findings] == [grave]


@pytest.mark.parametrize(("path", "rules"), [("a.yaml", ["MEM001"]), ("a.sh", ["MEM010", "MEM001"])])
def test_a_config_that_is_over_the_card_anyway_is_not_so_at_full_length_too(path: str, rules: list[str]) -> None:
    """A command gives it eight GPUs, nobody says how many else. A script may start several runs."""
    long = finding(path, 2)._replace(rule="MEM010", severity="warning")
    (report,) = merge_reports([FileReport(path, "trainer", (long, finding(path, 3)))])
    assert [item.rule for item in report.findings] == rules


def test_one_mistake_twice_in_a_line_is_told() -> None:
    """JSON on one line: both trailing commas are errors, though they are told in the same words."""
    twice = tuple(
        Finding("SRC001", "source/syntax", "error", "a trailing comma", Location("z.json", 1, column, 1, column + 1))
        for column in (34, 59)
    )
    (merged,) = merge_reports([FileReport("z.json", "deepspeed", twice)])
    assert merged.findings == twice


def test_what_is_an_error_of_a_run_is_no_warning_of_its_file_beside_it() -> None:
    """A DeepSpeed file alone knows less than the config that names it: of one rule and place the error stays."""
    place = Location("z.json", 1, 22, 1, 24)
    mild = Finding("CFG008", "config/conflict", "warning", "32 is not 4 * 2 * 8 unless a script ...", place)
    grave = mild._replace(severity="error", message="32 is not 4 * 2 * 8: transformers raises ValueError")
    elsewhere = mild._replace(location=Location("z.json", 1, 50, 1, 52))
    alone = FileReport("z.json", "deepspeed", (mild, elsewhere))
    merged = {one.path: one for one in merge_reports([alone, FileReport("a.yaml", "trainer", (grave,))])}
    assert merged["z.json"].findings == (grave, elsewhere)


def test_what_several_scripts_make_of_a_value_is_said_once() -> None:
    words = "`warmup_ratio` is gone, where {} passes this value on"
    found = [finding("a.yaml", 3, words.format(script)) for script in ("one.py", "two.py")]
    reports = merge_reports([FileReport(script, "", (item,)) for script, item in zip(("one.py", "two.py"), found)])
    assert [item.message for report in reports for item in report.findings] == [words.format("one.py")]


def test_a_file_and_the_command_that_names_it_say_one_excess_once() -> None:
    words = "out of memory in the backward phase{}: 127.9 GiB needed"
    messages = (words.format(", launched as in scripts/run.sh:7"), words.format(""))
    reports = [FileReport(f"{message}.sh", "", (finding("a.yaml", 7, message),)) for message in messages]
    found = [item.message for report in merge_reports(reports) for item in report.findings]
    assert found == [messages[0]]


def test_what_is_said_of_a_program_is_not_said_at_the_beginning_of_its_command() -> None:
    run = RunReport("a.py", "trainer", (), *[None] * 3, launched="run.sh:2")  # type: ignore[arg-type]
    reports = [
        FileReport("a.py", "trainer", (finding("a.py", 7),), (run,)),
        FileReport("run.sh", "trainer", (finding("run.sh", 2), finding("run.sh", 2, "y"), finding("run.sh", 3))),
    ]
    found = [(item.location.path, item.location.line) for one in merge_reports(reports) for item in one.findings]
    assert found == [("a.py", 7), ("run.sh", 2), ("run.sh", 3)]


def test_what_differs_in_figures_from_its_command_is_said_of_the_command() -> None:
    """The command knows the launcher, whose engine shards the model."""
    words = "evaluation needs {} GiB of tensors, training {} GiB"
    model, trains = ModelFacts("a/b", "catalog", 7, 7), (("a/b", "train"),)
    run = RunReport("a.py", "trainer", (), model, *[None] * 2)  # type: ignore[arg-type]
    program = finding("a.py", 7, words.format("22.6", "13.6"))._replace(rule="EVA001")
    command = finding("run.sh", 2, words.format("20", "13"))._replace(rule="EVA001")
    reports = [
        FileReport(
            "a.py", "trainer", (program, finding("a.py", 8)._replace(rule="TRN003")), (run,), commanded=("run.sh:2",)
        ),
        FileReport("run.sh", "trainer", (command,), (run._replace(path="run.sh"),), trains=trains),
    ]
    merged = merge_reports(reports)
    assert [(item.location.path, item.location.line) for one in merged for item in one.findings] == [
        ("a.py", 8),
        ("run.sh", 2),
    ]
    assert [len(one.runs) for one in merged] == [0, 1]
    (alone,) = merge_reports([reports[0]._replace(runs=())])  # the command's file is not checked
    assert len(alone.findings) == 2
    assert [len(one.runs) for one in merge_reports(reports[:1])] == [1]


def test_of_many_files_a_page_that_was_not_checked_holds_none_up() -> None:
    program = FileReport("a.py", "trainer", (finding("a.py", 7),), commanded=("README.md:2", "run.sh:3"))
    others = [FileReport(f"{number:03}.yaml", "", (finding(f"{number:03}.yaml", 1),)) for number in range(MANY)]
    repeated = FileReport("run.sh", "trainer", (finding("run.sh", 3),))
    merged = merge_reports([program, *others, repeated], MANY + 2)
    assert [len(one.findings) for one in merged] == [1] * (MANY + 1) + [0]


def test_runs_of_one_file_say_one_verdict_and_its_own_first() -> None:
    place = Location("configs/sft.yaml", 10, 30, 10, 31)
    started, own = (
        Finding("MEM002", "memory/tight", "warning", message, place, key="MEM002:")
        for message in ("tight: 75.3 GiB needed", "likely out of memory: 80.8 GiB needed")
    )
    reports = merge_reports([FileReport("a.py", "trainer", (started,)), FileReport(place.path, "trainer", (own,))])
    assert [item for report in reports for item in report.findings] == [own]


def test_a_loop_over_models_gives_one_finding_on_a_file() -> None:
    words = "a bucket of 1.9 GiB; the gradients of `a/model-{}b` take {} GiB"
    other_figures = [finding("a.yaml", 3, words.format(7, figure)) for figure in ("0.36", "0.17")]
    other_model = finding("a.yaml", 3, words.format(13, "0.36"))
    elsewhere = finding("a.yaml", 4, words.format(7, "0.17"))
    (merged,) = merge_reports([FileReport("a.yaml", "", (*other_figures, other_model, elsewhere))])
    assert sorted(map(repr, merged.findings)) == sorted(map(repr, (other_figures[0], other_model, elsewhere)))


def test_a_group_is_merged_as_soon_as_its_last_report_is_there() -> None:
    """So that of many files that share companions a few are held at a time."""
    reports = []
    for folder in range(MANY):
        companion = f"{folder}/zero.json"
        for name in ("a.yaml", "b.yaml"):
            path = f"{folder}/{name}"
            reports.append(FileReport(path, "trainer", (finding(path, 1), finding(companion, 1)), texts={path: "x"}))
        reports.append(FileReport(companion, "deepspeed", (finding(companion, 1),)))
    sizes: list[int] = []
    merge = merging._merge_at_once

    def counted(some: Iterable[FileReport]) -> tuple[FileReport, ...]:
        held = tuple(some)
        sizes.append(len(held))
        return merge(held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_merge_at_once", counted)
        merged = tuple(merge_reports(iter(reports), len(reports)))

    assert max(sizes) == 3
    assert merged == tuple(merge_reports(iter(reports), 0))


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


def test_a_config_that_a_job_starts_as_it_stands_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job's, which says the cards: neither "no GPU is named" nor figures of other GPUs stand beside it."""
    (tmp_path / "x.yaml").write_text(BASE + "per_device_train_batch_size: 2\ntemplate: qwen\nbf16: true\n")
    (tmp_path / "run.sh").write_text("#SBATCH --gres=gpu:a100_80gb:4\nllamafactory-cli train x.yaml\n")
    main(["check", str(tmp_path), "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    (over,) = (one["message"] for one in told["findings"] if one["rule"] == "MEM001")
    assert "on each of the 4 GPUs" in over
    assert [Path(one["path"]).name for one in told["runs"]] == ["run.sh"]

    main(["plan", str(tmp_path), "--format", "json"])
    assert [Path(one["path"]).name for one in json.loads(capsys.readouterr().out)["runs"]] == ["run.sh"]


def test_a_command_with_words_of_its_own_is_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text(BASE + "per_device_train_batch_size: 2\ntemplate: qwen\nbf16: true\n")
    (tmp_path / "run.sh").write_text("#SBATCH --gres=gpu:a100_80gb:4\nllamafactory-cli train x.yaml cutoff_len=512\n")
    main(["estimate", str(tmp_path), "--format", "json"])
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
