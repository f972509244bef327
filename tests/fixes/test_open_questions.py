"""Advice where the files leave open what decides: the answer with which the run fits, or a better plan does."""

from __future__ import annotations

import memlint
from memlint.fixes.costs import Cost
from memlint.fixes.open_questions import better_as_it_stands
from memlint.fixes.plan import Plan
from memlint.fixes.proposed_change import ProposedChange
from memlint.run import Reading
from tests.fixes.test_planner import FULL, toy

FULL_WITH_A_FILE = """\
model_name_or_path: Qwen/Qwen2.5-7B-Instruct
stage: sft
do_train: true
finetuning_type: full
dataset: d
template: qwen
output_dir: out
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
deepspeed: {}
"""


def test_a_file_that_is_not_there_is_described_as_it_has_to_be() -> None:
    """Of the stages and placements that its name leaves open the first that is enough."""
    for name, wanted in (("ds_z3.json", "with ZeRO-3, offloaded"), ("ds.json", "with ZeRO-2, offloaded")):
        row = memlint.plan(FULL_WITH_A_FILE.format(name), gpu="A100-40GB", gpus=2).runs[0]
        advice = [one for one in row["advice"] if "DeepSpeed file" in one["title"]]
        assert [one["title"].partition(", ")[2] for one in advice] == [wanted], name
        assert advice[0]["after"]["high"] <= advice[0]["after"]["usable"]


def test_a_better_plan_of_a_stated_release_is_told_beside_one_for_any() -> None:
    release = Reading("no release is stated", "with eager attention", "with sdpa", (), settled_itself="state it")
    run, before = FULL._replace(readings=(release,)), toy(24).estimate(FULL)
    offload, batch = (
        Plan((ProposedChange(title, {}, group),), run, before, price)
        for title, group, price in (("offload", "zero", Cost(1.5)), ("half the batch", "batch", Cost(1.02)))
    )

    (told,) = better_as_it_stands(run, before, batch, offload)
    assert told.title == "half the batch" and told.note == "state it" and not told.safe
    assert not [*better_as_it_stands(run, before, batch, batch)]
    assert not [*better_as_it_stands(run, before, None, offload)]
    unsettled = run._replace(readings=(release, release._replace(settled_itself="")))
    assert not [*better_as_it_stands(unsettled, before, batch, offload)]
