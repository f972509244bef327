"""The longest sample of the data, which the user states and no config says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlint
from memlint.formats.longest_sample import LongestSample, with_longest_sample
from memlint.run import UNKNOWN, Origin, Run, replace
from tests.commands.running import memlint as run_memlint
from tests.commands.running import write

SFT = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
dataset_name: trl-lib/Capybara
output_dir: out
per_device_train_batch_size: 2
learning_rate: 1.0e-4
max_length: {length}
packing: {packing}
"""
GRPO = """\
model_name_or_path: Qwen/Qwen2.5-0.5B
dataset_name: trl-lib/tldr
output_dir: out
per_device_train_batch_size: 8
num_generations: 8
max_completion_length: 200
"""
STATED = LongestSample(700, Origin("command_line"))


def sft(length: object = 2048, packing: str = "false") -> str:
    return SFT.format(length=length, packing=packing)


def length(text: str, longest: int | None = 700) -> object:
    return memlint.estimate(text, path="train.yaml", gpu="H100", gpus=1, longest_sample=longest).run.sequence.length


def test_a_bound_that_no_sample_reaches_is_not_reached() -> None:
    assert (length(sft(), None), length(sft()), length(sft(512))) == (2048, 700, 512)


def test_packed_sequences_are_full_whatever_is_in_them() -> None:
    assert length(sft(packing="true")) == 2048


def test_a_run_that_cuts_nothing_has_a_figure() -> None:
    """TRL without a bound: as long as the table of positions without a word."""
    assert length(sft("null"), None) != 700
    assert length(sft("null")) == 700


def test_prompts_of_a_run_that_writes_completions_are_as_long() -> None:
    unknown = memlint.estimate(GRPO, path="train.yaml", gpu="H100", gpus=1)
    assert unknown.run.sequence.length is UNKNOWN and unknown.device_bytes is None
    found = memlint.estimate(GRPO, path="train.yaml", gpu="H100", gpus=1, longest_sample=700)
    sequence = found.run.sequence
    assert (sequence.max_prompt_length, sequence.length) == (700, 900) and found.device_bytes is not None
    assert found.run.origins["sequence.length"].kind == "command_line"


@given(st.one_of(st.just(UNKNOWN), st.integers(1, 5000)), st.sampled_from(["sft", "grpo"]), st.integers(1, 5000))
def test_it_never_lengthens_a_sequence_and_twice_is_once(length: object, stage: str, longest: int) -> None:
    run = replace(Run("trainer", "a.yaml"), {"sequence.length": length, "method.stage": stage})
    stated = STATED._replace(tokens=longest)
    found = with_longest_sample(run, stated)
    assert isinstance(found.sequence.length, int)
    assert found.sequence.length <= (length if isinstance(length, int) else longest)
    assert with_longest_sample(found, stated) == found


def test_what_does_not_train_reads_no_data() -> None:
    run = Run("llamafactory", "a.yaml", purpose="inference")
    assert with_longest_sample(run, STATED) is run


@pytest.mark.parametrize("how", ["option", "comment", "setting"])
def test_it_is_stated_on_the_command_line_in_a_comment_and_in_settings(tmp_path: Path, how: str) -> None:
    comment = "# memlint: longest_sample=700\n" if how == "comment" else ""
    write(
        tmp_path, {"train.yaml": comment + sft(), "memlint.yaml": "longest_sample: 700\n" if how == "setting" else ""}
    )
    option = ("--longest-sample", "700") if how == "option" else ()
    out = run_memlint(tmp_path, "estimate", "train.yaml", "--gpu", "H100", "--format", "json", *option).out
    (row,) = json.loads(out)["runs"]
    assert row["summary"].endswith("2 x 700 tokens")


def test_an_unknown_length_says_how_to_state_it(tmp_path: Path) -> None:
    write(tmp_path, {"grpo.yaml": GRPO})
    assert "--longest-sample N" in run_memlint(tmp_path, "check", "grpo.yaml", "--gpu", "H100", "--gpus", "1").out


def test_a_longest_sample_of_nothing_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": sft()})
    assert run_memlint(tmp_path, "check", "a.yaml", "--longest-sample", "0").code == 2
    with pytest.raises(memlint.Error, match="longest_sample=0"):
        memlint.estimate(sft(), path="a.yaml", longest_sample=0)
