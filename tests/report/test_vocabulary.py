"""One run is spoken of with the same figures and the same words in every output."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import memlint.report.card_figures as card_figures
from memlint.card_bytes import CardBytes
from memlint.expressions.functions import gib as rounded
from memlint.report.outputs import OUTPUTS
from memlint.report.units import gib
from tests.commands.history import Repository
from tests.commands.running import memlint

RUN = "qwen2_5_1_5b_eager_long.yaml"
EXAMPLE = Path(__file__).parents[2] / "examples" / "llamafactory" / RUN
CARD = ("--gpu", "A100-80GB", "--gpus", "1", "--isolated")
GIB = 1 << 30
WITHOUT_FIXES = ("checkstyle", "gitlab", "rdjson")  # their formats have no words for a fix, or take its text alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("vocabulary")
    (root / RUN).write_bytes(EXAMPLE.read_bytes())
    return root


@pytest.fixture(scope="module")
def checked(folder: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(memlint(folder, "check", RUN, "--format", "json", *CARD).out)
    return loaded


def card_of(value: object, usable: int) -> CardBytes:
    assert isinstance(value, dict)
    names = ("device_bytes", "device_low_bytes", "device_high_bytes", "device_unclamped_high_bytes")
    return CardBytes(*(value[name] for name in names), usable)


def run_of(checked: dict[str, object]) -> tuple[CardBytes, str]:
    """What the run takes of its card, and its verdict in words."""
    (run,) = checked["runs"]  # type: ignore[misc]
    return card_of(run["peak"], run["peak"]["budget_bytes"]), run["verdict_words"]


def fixes_of(checked: dict[str, object]) -> list[dict[str, object]]:
    found = [fix for finding in checked["findings"] for fix in finding["fixes"]]  # type: ignore[attr-defined]
    return [fix for fix in found if fix["after"]]


def plain(output: str, text: str) -> str:
    """An output without what its format escapes."""
    text = html.unescape(text).replace("\\u2013", "-").replace("&#xA;", "\n").replace("%0A", "\n")
    return re.sub(r"\\([\\`*_{}\[\]<>()#!|~@])", r"\1", text) if output == "markdown" else text.replace("\\u003e", ">")


@pytest.mark.parametrize("output", sorted(set(OUTPUTS) - {"json"}))
def test_a_fix_has_the_same_figure_in_every_output(output: str, folder: Path, checked: dict[str, object]) -> None:
    said = plain(output, memlint(folder, "check", RUN, "--format", output, *CARD).out)
    whole, _ = run_of(checked)
    promised = {card_figures.change(whole, card_of(fix["after"], whole.usable)) for fix in fixes_of(checked)}
    assert promised
    spoken = set(re.findall(r"peak ([\d.]+ -> [\d.]+ GiB \([^)]*\))", said))
    assert spoken <= promised
    assert spoken or output in WITHOUT_FIXES


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate", RUN),
        ("plan", RUN),
        ("check", RUN, "--format", "markdown"),
        ("check", RUN, "--format", "html"),
    ],
    ids=lambda arguments: " ".join(arguments[::3]),
)
def test_the_run_has_the_same_figure_in_every_output(
    arguments: tuple[str, ...], folder: Path, checked: dict[str, object]
) -> None:
    found, words = run_of(checked)
    said = plain(arguments[-1], memlint(folder, *arguments, *CARD).out)
    assert card_figures.figure(found) in said
    assert words in said


def test_the_table_of_a_folder_has_the_same_figures(folder: Path, checked: dict[str, object]) -> None:
    (folder / "second.yaml").write_bytes(EXAMPLE.read_bytes())
    said = memlint(folder, "check", ".", *CARD).out
    (folder / "second.yaml").unlink()
    found, words = run_of(checked)
    assert re.search(
        rf"{gib(found.figure)} GiB  \({card_figures.interval(found)} of {gib(found.usable)}\)  {words}", said
    )


def test_plan_promises_what_the_fixes_of_a_finding_promise(folder: Path, checked: dict[str, object]) -> None:
    (row,) = json.loads(memlint(folder, "plan", RUN, "--format", "json", *CARD).out)["runs"]
    told = {fix["title"]: card_of(fix["after"], row["budget_bytes"]) for fix in fixes_of(checked)}
    both = [plan for plan in row["plans"] if plan["title"] in told]
    assert both
    assert all(CardBytes(**plan["after"]) == told[plan["title"]] for plan in both)


def test_a_change_has_the_same_delta_before_and_after_it_is_made(tmp_path: Path, checked: dict[str, object]) -> None:
    """What `check` promises of a fix is what `diff` says of the file once it is written."""
    repository = Repository(tmp_path / "repository")
    repository.write({RUN: EXAMPLE.read_text()})
    repository.commit("a run")
    fix = next(fix for fix in fixes_of(checked) if fix["title"] == "use sdpa")
    repository.edit(RUN, lambda text: text.replace("flash_attn: disabled", "flash_attn: sdpa"))
    whole, _ = run_of(checked)
    after = card_of(fix["after"], whole.usable)
    said = memlint(repository.folder, "diff", "HEAD", *CARD[:4]).out
    told = f"peak  {card_figures.change(whole, after)} on 1 x A100-80GB, -{gib(whole.figure - after.figure)}:"
    assert told in said


# A run of 14.8 GiB: its card decides whether it is said to fit barely, to be tight or likely out of memory.
FULL = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
do_train: true
finetuning_type: full
dataset: alpaca_en_demo
template: qwen
cutoff_len: {length}
output_dir: out
per_device_train_batch_size: 1
pure_bf16: true
"""
VERDICTS = {
    "barely fits": ("V100-16GB", 1216),
    "tight": ("T4", 1024),
    "likely out of memory": ("RTX4090", 8192),
    "out of memory": ("T4", 4000),
}


class Verdict(NamedTuple):
    """A folder with one run, its card as arguments, the words of its verdict, and what it takes of the card."""

    folder: Path
    on_card: tuple[str, ...]
    words: str
    found: CardBytes


@pytest.fixture(scope="module", params=VERDICTS)
def verdict(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    card, length = VERDICTS[request.param]
    root = tmp_path_factory.mktemp("verdict")
    (root / "run.yaml").write_text(FULL.format(length=length))
    on_card = ("--gpu", card, "--gpus", "1", "--isolated")
    checked = json.loads(memlint(root, "check", "run.yaml", "--format", "json", "--no-fixes", *on_card).out)
    found, said = run_of(checked)
    assert said == request.param
    return Verdict(root, on_card, said, found)


def test_a_verdict_has_the_same_words_and_figures_in_every_output(verdict: Verdict) -> None:
    outputs = {
        "estimate": ("estimate", "run.yaml"),
        "plan": ("plan", "run.yaml"),
        "markdown": ("check", "run.yaml", "--format", "markdown", "--no-fixes"),
        "html": ("check", "run.yaml", "--format", "html", "--no-fixes"),
    }
    said = {
        name: plain(name, memlint(verdict.folder, *command, *verdict.on_card).out) for name, command in outputs.items()
    }
    assert [name for name in said if verdict.words not in said[name]] == []
    assert [name for name in said if card_figures.figure(verdict.found) not in said[name]] == []
    explained = card_figures.why_barely(verdict.found) in said["estimate"]
    assert explained == (verdict.words == "barely fits")


@pytest.mark.parametrize("output", sorted(set(OUTPUTS) - {"json"}))
def test_a_finding_speaks_of_the_run_as_the_run_is_spoken_of(output: str, verdict: Verdict) -> None:
    """SARIF and its like have findings alone: what these say of the card is the run's own figure, low and high end."""
    command = ("check", "run.yaml", "--format", output, "--no-fixes")
    said = plain(output, memlint(verdict.folder, *command, *verdict.on_card).out)
    found, words = verdict.found, verdict.words
    told = f"{rounded(found.figure)} needed ({rounded(found.low)} to {rounded(found.high)})"  # a message rounds to 0.1
    assert (told in said) == (words != "barely fits")
    is_told = (
        words != "barely fits" or output == "text"
    )  # the text says of a single run that it fits, in a line of its own
    assert (f"{words}: " in said or f"{words} in the " in said) == is_told


LORA = FULL.replace("finetuning_type: full", "finetuning_type: lora").replace("pure_bf16", "bf16")
VARIED = {
    "images": LORA.replace("Qwen2.5-1.5B", "Qwen2-VL-7B-Instruct").format(length=2048),
    "far over the card": LORA.format(length=131_072).replace("batch_size: 1", "batch_size: 64"),
    "a server": "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\ntemplate: llama3\ninfer_backend: vllm\n",
    "requests": "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\ntemplate: qwen\ninfer_backend: huggingface\n",
    "tensor parallel": """\
base_model: Qwen/Qwen2.5-7B
sequence_len: 2048
micro_batch_size: 1
gradient_accumulation_steps: 1
learning_rate: 1e-5
optimizer: adamw_torch
bf16: true
tensor_parallel_size: 2
fsdp_version: 2
fsdp_config: {reshard_after_forward: true}
datasets: [{path: a/b, type: alpaca}]
""",
    "reinforcement": """\
model: Qwen/Qwen2.5-1.5B-Instruct
rlhf_type: grpo
tuner_type: lora
dataset: data.jsonl
torch_dtype: bfloat16
max_length: 1024
max_completion_length: 512
num_generations: 4
per_device_train_batch_size: 4
output_dir: out
""",
}


@pytest.mark.parametrize("name", VARIED)
def test_runs_of_all_kinds_have_the_same_figures_in_every_output(name: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(VARIED[name])
    card = ("--gpu", "RTX4090", "--gpus", "2", "--isolated")

    def output(*command: str) -> str:
        return plain(command[-1], memlint(tmp_path, *command[:2], *card, *command[2:]).out)

    checked = json.loads(output("check", "run.yaml", "--format", "json"))
    (estimated,) = json.loads(output("estimate", "run.yaml", "--format", "json"))["runs"]
    assert estimated["peak"] == checked["runs"][0]["peak"]
    found, words = run_of(checked)
    told = [output(*command) for command in (("estimate", "run.yaml"), ("plan", "run.yaml"))]
    told += [output("check", "run.yaml", "--format", kind) for kind in ("markdown", "html")]
    assert [card_figures.figure(found) in said and words in said for said in told] == [True] * 4
    promised = {card_figures.change(found, card_of(fix["after"], found.usable)) for fix in fixes_of(checked)}
    assert set(re.findall(r"peak ([\d.]+ -> [\d.]+ GiB \([^)]*\))", "".join(told[2:]))) <= promised


def test_the_words_of_a_verdict() -> None:
    fits = CardBytes(20 * GIB, 18 * GIB, 22 * GIB, 22 * GIB, 24 * GIB)
    assert card_figures.verdict_words("fits", fits) == "fits"
    assert card_figures.verdict_words("fits", fits._replace(high=24 * GIB, unclamped_high=26 * GIB)) == "barely fits"
    assert card_figures.verdict_words("tight", fits._replace(high=26 * GIB)) == "tight"
    assert card_figures.verdict_words("tight", fits._replace(figure=25 * GIB, high=26 * GIB)) == "likely out of memory"
    assert card_figures.verdict_words("unknown", None) == "unknown"
    assert "2.00 more" in card_figures.why_barely(fits._replace(unclamped_high=26 * GIB))


def test_a_run_that_its_framework_refuses_is_not_said_to_fit() -> None:
    """The error stands in the DeepSpeed file, which is part of the run and no run of its own."""
    root = Path(__file__).parents[2]
    names = [f"examples/deepspeed/{name}" for name in ("mismatched.json", "train_mismatched.yaml")]
    report = json.loads(memlint(root, "check", *names, "--format", "json", "--isolated").out)
    assert report["summary"]["stopped"] == 1
    assert sum(report["summary"]["verdicts"].values()) == 0
    (run,) = (run for run in report["runs"] if run["purpose"] == "train")
    assert run["verdict_words"] == "will not start (CFG001, CFG008)"


def test_the_page_counts_the_runs_that_the_last_line_counts(tmp_path: Path) -> None:
    """A DeepSpeed file with an error that takes part in a run is no second run that will not start."""
    examples = str(Path(__file__).parents[2] / "examples")
    last = memlint(tmp_path, "check", examples, "--exit-zero").out.splitlines()[-2]
    page = memlint(tmp_path, "check", examples, "--exit-zero", "--format", "html").out
    shown = re.findall(r'"verdict":"(\w+)"', page)

    words = {"stopped": "will not start", "fits": "fits", "tight": "tight", "out_of_memory": "out of memory"}
    for verdict, word in words.items():
        assert f"{shown.count(verdict)} {word}" in last


OF_A_TRAINER = """\
model_name_or_path: Qwen/Qwen2.5-7B
dataset_name: trl-lib/tldr
per_device_train_batch_size: {batch}
max_length: 4096
learning_rate: 1.0e-5
bf16: true
output_dir: out
"""


def test_figures_of_readings_are_said_once_and_what_decides(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(OF_A_TRAINER.format(batch=4))
    said = memlint(tmp_path, "estimate", "run.yaml", "--gpu", "A100-80GB", "--gpus", "8", "--isolated").out
    assert said.count("sharded over 8 GPUs") == 1
    assert "unknown parallelism.engine: launcher not known (--with FILE names the launch file)\n" in said


def test_figures_of_readings_that_agree_are_said_below_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(OF_A_TRAINER.format(batch=1) + "deepspeed: zero2_config.json\n")
    said = memlint(tmp_path, "estimate", "run.yaml", "--gpu", "B200", "--gpus", "8", "--isolated").out
    (line,) = [line for line in said.splitlines() if line.startswith("  whichever holds: ")]
    assert re.fullmatch(r"  whichever holds: \S+ GiB \(.+\) with ZeRO-2, offloaded, \S+ GiB \(.+\) with ZeRO-2", line)


def test_a_row_has_the_range_of_all_readings(tmp_path: Path) -> None:
    for name in ("first.yaml", "second.yaml"):
        (tmp_path / name).write_text(OF_A_TRAINER.format(batch=4))
    checked = memlint(tmp_path, "check", ".", "--gpu", "A100-80GB", "--gpus", "8", "--isolated", "--format", "json").out
    readings = json.loads(checked)["runs"][0]["readings"]
    low, high = min(one["device_low_bytes"] for one in readings), max(one["device_high_bytes"] for one in readings)
    said = memlint(tmp_path, "check", ".", "--gpu", "A100-80GB", "--gpus", "8", "--isolated").out
    assert said.count(f" GiB  ({gib(low)} - {gib(high)} of 79.15)  unknown\n") == 2


def test_a_part_of_a_run_is_no_table_beside_it() -> None:
    said = memlint(Path(__file__).parents[2], "estimate", "examples/deepspeed").out
    titles = [line for line in said.splitlines() if line.startswith("examples/")]
    assert "examples/deepspeed/train_zero2.yaml, examples/deepspeed/zero2.json" in titles
    assert not [title for title in titles if title.endswith(".json") and ", " not in title]


def test_a_run_over_the_card_however_it_is_launched_says_the_least(tmp_path: Path) -> None:
    """Of four readings the least is enough: no figure is cut, and the message stays readable."""
    (tmp_path / "run.yaml").write_text(OF_A_TRAINER.format(batch=64) + "gradient_checkpointing: false\n")
    checked = json.loads(memlint(tmp_path, "check", "run.yaml", "--format", "json", *CARD[:2], "--gpus", "8").out)
    (run,) = checked["runs"]
    least = min(run["readings"], key=lambda one: one["device_bytes"])
    (message,) = (one["message"] for one in checked["findings"] if one["rule"] == "MEM001")
    assert len(run["readings"]) > 2
    assert message.endswith(least["label"])
    assert f"at the least {least['device_bytes'] / GIB:.1f} GiB (" in message
