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


DPO = """\
base_model: Qwen/Qwen2.5-3B-Instruct
rl: dpo
adapter: lora
lora_r: 16
lora_alpha: 32
lora_target_linear: true
datasets:
  - path: d
    split: train
sequence_len: 4096
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_torch_fused
learning_rate: 1.0e-5
bf16: true
gradient_checkpointing: true
flash_attention: true
output_dir: out
"""


def test_a_loss_that_an_older_release_ignores_is_told_with_what_to_state() -> None:
    """Axolotl's key for Liger's loss of preferences; it is written where a release is stated."""
    row = memlint.plan(DPO, gpu="RTX4090", gpus=1).runs[0]
    (told,) = [one for one in row["advice"] if "Liger" in one["title"]]
    assert "axolotl>=0.19" in told["note"] and told["after"]["high"] <= told["after"]["usable"]
    stated = memlint.plan(DPO, gpu="RTX4090", gpus=1, versions={"axolotl": "0.19.0"}).runs[0]
    assert "Liger" in stated["plans"][0]["title"]
    assert not [one for one in stated["advice"] if "Liger" in one["title"]]
    assert not [
        one for one in memlint.plan(DPO, gpu="H200", gpus=1).runs[0].get("advice", ()) if "Liger" in one["title"]
    ]


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


def test_a_file_whose_name_says_too_little_is_told_to_be_another_one() -> None:
    """Stage 2 is over these cards with and without the host: a file with ZeRO-3 is not, or more of the cards are."""
    for model, gpu, wanted in (
        ("Qwen/Qwen2.5-32B", "A100-40GB", "give it a DeepSpeed file with ZeRO-3, offloaded"),
        ("meta-llama/Llama-3.1-405B", "H200", "use 64 of these cards with a DeepSpeed file with ZeRO-3"),
    ):
        text = FULL_WITH_A_FILE.format("ds_z2.json").replace("Qwen/Qwen2.5-7B-Instruct", model)
        row = memlint.plan(text, gpu=gpu, gpus=2).runs[0]
        told = [one for one in row["advice"] if "DeepSpeed file" in one["title"]]
        assert [one["title"] for one in told] == [wanted]
        assert told[0]["after"]["high"] <= told[0]["after"]["usable"]
