"""Moves that users confirmed in public threads, each where it applies and not where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures import from_config
from memlint.fixes.consequences import consistent
from memlint.fixes.costs import Cost, between
from memlint.fixes.moves.catalog import steps
from memlint.fixes.proposed_change import ProposedChange
from memlint.fixes.step_time import ParameterCounts
from memlint.hardware import find
from memlint.memory import estimate
from memlint.run import (
    UNKNOWN,
    Fsdp,
    Hardware,
    Origin,
    Parallelism,
    Planning,
    Precision,
    Quantization,
    Run,
    Sequence,
    Zero,
    get,
    replace,
)
from tests.frameworks import AXOLOTL, LLAMAFACTORY, OLD_TRL, TRL
from tests.memory.runs import LORA, TINY, run

MODEL = ParameterCounts(7_000_000_000, 7_000_000_000)
EIGHT_BITS = Quantization("bnb", 8, "int8")


def step(one: Run, start: str) -> ProposedChange:
    """The only step whose title starts so."""
    (found,) = [step for step in steps(one) if step.title.startswith(start)]
    return found


def price(one: Run, start: str) -> Cost:
    """What the only step whose title starts so costs."""
    return between(one, replace(one, step(one, start).changes), (MODEL, MODEL))


def titles(one: Run) -> str:
    return "; ".join(step.title for step in steps(one))


def test_several_gpus_that_share_nothing_can_shard() -> None:
    assert "with ZeRO-3" in titles(run(parallelism=Parallelism(4, 4, 4, engine="ddp")))
    assert "with ZeRO-3" not in titles(run())
    assert "with ZeRO-3" not in titles(
        run(parallelism=Parallelism(4, 4, 4, engine="ddp"), model__quantization=EIGHT_BITS)
    )


def test_fsdp_can_offload_and_shard_more() -> None:
    plain = run(parallelism=Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(1, "SHARD_GRAD_OP")))
    assert "FSDP shards in host memory" in titles(plain)
    assert "SHARD_GRAD_OP -> FULL_SHARD" in titles(plain)
    assert "host memory" not in titles(
        run(parallelism=Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(1, cpu_offload=True)))
    )


def test_shards_on_the_host_want_an_optimizer_that_runs_there() -> None:
    sharded = Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(1))
    assert "optimizer.name" not in step(run(parallelism=sharded), "FSDP shards").changes
    eight = step(run(parallelism=sharded, optimizer__name="paged_adamw_8bit"), "FSDP shards")
    assert eight.changes["optimizer.name"] == "adamw_torch"
    offloaded = titles(run(parallelism=Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(1, cpu_offload=True))))
    assert "8-bit AdamW" not in offloaded and "paged" not in offloaded and "Adafactor" in offloaded
    assert step(run(optimizer__name="paged_adamw_32bit"), "ZeRO-2 with").changes["optimizer.name"] == "adamw_torch"
    for other in ("adafactor", "adam_mini"):
        changes = step(run(optimizer__name=other), "ZeRO-3 with parameters and").changes
        assert changes["optimizer.name"] == "adamw_torch"
    assert "optimizer.name" not in step(run(optimizer__name="adamw_hf"), "ZeRO-2 with").changes


def test_shards_of_fsdp2_take_no_optimizer_of_bitsandbytes_and_no_adafactor() -> None:
    sharded = Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(2))
    ways = titles(run(parallelism=sharded))
    assert "torchao's 8-bit AdamW" in ways and "fused AdamW" in ways
    assert "paged" not in ways and "Adafactor" not in ways
    assert step(run(parallelism=sharded), "torchao's").changes["optimizer.name"] == "adamw_torch_8bit"
    assert "torchao" not in titles(run(parallelism=sharded._replace(fsdp=Fsdp(2, cpu_offload=True))))
    assert "torchao" not in titles(run(parallelism=sharded._replace(fsdp=Fsdp(1))))


def test_an_optimizer_in_the_backward_accumulates_nothing() -> None:
    can = {"planning__updates_in_backward": True, "method__kind": "full", "optimizer__max_grad_norm": 0.0}
    sizes = {"batch__micro_batch_size": 1, "batch__gradient_accumulation_steps": 16}
    whole, shrinks = [one for one in steps(run(**can, **sizes)) if "in the backward" in one.title]
    fields = ("optimizer.layerwise", "batch.micro_batch_size", "batch.gradient_accumulation_steps")
    assert tuple(whole.changes.values()) == (True, 16, 1) and tuple(whole.changes) == fields
    assert tuple(shrinks.changes.values()) == (True, 1, 1)
    assert price(run(**can, **sizes), whole.title).quality == "none"
    assert price(run(**can, **sizes), shrinks.title).quality == "medium"
    one = run(**can, batch__micro_batch_size=4, batch__gradient_accumulation_steps=1)
    assert [step.changes for step in steps(one) if step.group == "update"] == [{"optimizer.layerwise": True}]
    for refused in (
        {"method__kind": "lora"},
        {"optimizer__max_grad_norm": 1.0},
        {"planning__updates_in_backward": False},
    ):
        assert "in the backward" not in titles(run(**{**can, **sizes, **refused}))
    assert "in the backward" not in titles(run(**can, batch__micro_batch_size=4, batch__gradient_accumulation_steps=2))


def test_a_plain_loss_is_computed_in_parts_where_the_config_can_say_so() -> None:
    one = run(planning__loss_parts=8, method__stage="sft", loss__kind="plain")
    assert step(one, "compute the loss in 8 parts").changes["loss.parts"] == 8
    assert "in 8 parts" not in titles(run(planning__loss_parts=8, method__stage="sft", loss__parts=8))
    assert "in 8 parts" not in titles(run(planning__loss_parts=8, method__stage="dpo"))


def test_overlapping_communication_can_stop() -> None:
    sharded = Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(2, overlap_comm=True))
    assert "no overlap" in titles(run(parallelism=sharded))
    assert "no overlap" not in titles(run(parallelism=sharded._replace(zero=Zero(2))))


def test_a_copied_reference_model_can_be_spared() -> None:
    assert "beforehand" in titles(run(method__stage="dpo", method__reference_model="copy"))
    assert "beforehand" not in titles(run(method__stage="dpo", method__reference_model="shared"))


def test_float32_training_can_be_mixed() -> None:
    single = {"precision__compute": "float32", "precision__autocast": False}
    assert "bfloat16 mixed" in titles(run(**single, hardware=Hardware(find("A100-80GB"))))
    assert "float16 mixed" in titles(run(**single, hardware=Hardware(find("V100-32GB"))))
    assert "mixed precision" not in titles(run())


def test_half_precision_under_deepspeed_halves_the_parameters() -> None:
    before = run(
        parallelism=Parallelism(2, 2, 2, engine="deepspeed", zero=Zero(3)),
        precision=Precision("float32", False, "float32", True, outputs_to_fp32=False),
        model__weights_dtype="float32",
    )
    after = consistent(replace(before, step(before, "train in bfloat16 mixed").changes), before)
    assert after.precision == before.precision._replace(compute="bfloat16", trainable_dtype="bfloat16")
    assert after.model.weights_dtype == "bfloat16"


def test_completions_fewer_or_shorter() -> None:
    lengths = {"sequence__length": 1536, "sequence__max_prompt_length": 1024, "sequence__max_new_tokens": 512}
    said = titles(run(**lengths, method__stage="grpo", method__num_generations=8, rollout__share=0.5))
    for part in ("8 -> 4 completions", "prompts of 1024 -> 512", "completions of 512 -> 256", "vLLM's share"):
        assert part in said


def test_eight_bits_can_become_four() -> None:
    lora = {"method__kind": "lora", "method__rank": 8, "method__targets": ("all-linear",)}
    assert "4 instead of 8 bits" in titles(run(**lora, model__quantization=EIGHT_BITS))


def test_sdpa_is_proposed_to_models_that_load_with_it_alone() -> None:
    eager = run(attention__implementation="eager")
    assert "use sdpa" in titles(eager)
    sinks = eager.model.architecture._replace(family="gpt_oss")  # modeling_gpt_oss.py:379: `_supports_sdpa = False`
    assert "use sdpa" not in titles(run(attention__implementation="eager", model__architecture=sinks))


@pytest.mark.parametrize(
    ("framework", "changes"),
    [
        (LLAMAFACTORY, {"checkpointing.mode": "unsloth", "checkpointing.offload": True}),
        (TRL, {"offload.activations": "cpu"}),
        (AXOLOTL, {"checkpointing.offload": True}),
    ],
)
def test_checkpoints_wait_on_the_host_each_framework_its_own_way(
    framework: dict[str, object], changes: dict[str, object]
) -> None:
    checkpointed = run(checkpointing__mode="full", **framework)
    found = step(checkpointed, "keep activation checkpoints")

    assert found.changes == changes
    assert found.safe
    assert "keep activation checkpoints" not in titles(replace(checkpointed, dict(changes)))
    assert "keep activation checkpoints" not in titles(run(**framework))


def test_one_gpu_may_have_the_host_hold_what_it_cannot() -> None:
    full = step(run(**LLAMAFACTORY), "ZeRO-3 with parameters and")

    assert full.changes["offload.parameters"] == full.changes["offload.optimizer"] == "cpu"
    assert price(run(**LLAMAFACTORY), "ZeRO-3 with parameters and").speed > 1.5
    assert not full.safe
    assert "FORCE_TORCHRUN=1" in full.note
    assert "ZeRO-2 with optimizer states" in titles(run())
    assert "ZeRO-2 with optimizer states" not in titles(run(**LORA))
    for one in (run(model__quantization=EIGHT_BITS), run(precision__compute="float32"), run(stack__use_unsloth=True)):
        assert "in host memory" not in titles(one)


def test_zero_3_may_move_states_and_parameters_at_once() -> None:
    sharded = Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3))
    both = "parameters and optimizer states in host memory"
    assert both in titles(run(parallelism=sharded))
    assert "parameters in host memory" in titles(run(parallelism=sharded, offload__optimizer="cpu"))
    assert "host memory" not in titles(run(parallelism=sharded, offload__optimizer="cpu", offload__parameters="cpu"))
    assert f"ZeRO stage 2 -> 3, {both}" in titles(run(parallelism=sharded._replace(zero=Zero(2))))


def test_evaluation_can_be_done_afterwards() -> None:
    evaluates = run(evaluation__enabled=True, evaluation__batch_size=8)
    found = step(evaluates, "evaluate saved checkpoints")
    assert (price(evaluates, "evaluate saved").quality, found.safe) == ("low", False)
    assert found.group == step(evaluates, "evaluation batch 8 -> 1").group
    assert "evaluate saved" not in titles(run())


def test_states_of_adamw_can_leave_the_card_without_another_optimizer() -> None:
    assert price(run(), "paged AdamW").quality == "none"
    assert price(run(optimizer__name="adamw_bnb_8bit"), "paged 8-bit AdamW").quality == "none"
    assert price(run(), "paged 8-bit AdamW").quality == "low"
    assert "paged" not in titles(run(optimizer__name="paged_adamw_8bit"))
    assert "Adafactor" in titles(run(optimizer__name="paged_adamw_8bit"))
    ways = titles(run(optimizer__name="adafactor"))
    assert "8-bit AdamW" not in ways and "paged AdamW" not in ways
    assert "ZeRO-2 with optimizer states in host memory, with DeepSpeed's AdamW for the CPU" in ways
    adapters = titles(run(**LORA))
    assert "8-bit AdamW" in adapters and "paged AdamW" not in adapters and "Adafactor" not in adapters


def test_adapters_spare_the_copy_that_full_training_is_compared_with() -> None:
    copied = run(method__stage="dpo", method__reference_model="copy")
    assert step(copied, "train a LoRA").changes["method.reference_model"] == "shared"
    assert "method.reference_model" not in step(run(), "train a LoRA").changes


def test_a_high_rank_can_be_lower_with_the_same_scale() -> None:
    assert step(run(**{**LORA, "method__rank": 64, "method__alpha": 128}), "LoRA rank").changes == {
        "method.rank": 16,
        "method.alpha": 32,
    }
    assert "LoRA rank" not in titles(run(**LORA))
    assert "LoRA rank" not in titles(run(**{**LORA, "method__rank": 96, "method__alpha": 1}))


def test_a_bound_far_above_what_data_has_can_be_cut_to_an_ordinary_length() -> None:
    lengths = titles(run(sequence=Sequence(131_072)))
    assert "131072 -> 4096 tokens" in lengths
    assert "131072 -> 2048 tokens" not in lengths
    for length, shorter in ((4096, [3072, 2048, 1536, 1024, 768, 512]), (1100, [1024, 768, 512, 384, 256])):
        told = [step.changes for step in steps(run(sequence=Sequence(length))) if step.group == "sequence"]
        assert [one["sequence.length"] for one in told] == shorter
    assert "sequences" not in titles(run(sequence=Sequence(1)))


def test_forwards_before_the_update_follow_its_micro_batch_where_nothing_else_is_said() -> None:
    field = "rollout.reference_micro_batch_size"
    before = run(batch__micro_batch_size=16, rollout__reference_micro_batch_size=16)
    follows = before._replace(origins={field: Origin("inferred", detail="as it runs")})
    smaller = {"batch.micro_batch_size": 4}
    assert get(consistent(replace(follows, smaller), follows), field) == 4
    assert get(consistent(replace(before, smaller), before), field) == 16


def test_prompts_and_completions_make_the_length_of_a_sequence() -> None:
    lengths = {"sequence__length": 1536, "sequence__max_prompt_length": 1024, "sequence__max_new_tokens": 512}
    grpo = run(**lengths, method__stage="grpo")
    shorter = consistent(replace(grpo, {"sequence.max_prompt_length": 256, "sequence.max_new_tokens": 128}), grpo)
    assert shorter.sequence.length == 384
    assert consistent(run(), run()) == run()


QWEN_VL = {
    "model_type": "qwen2_5_vl",
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "text_config": {**TINY, "model_type": "qwen2_5_vl_text"},
    "vision_config": {"depth": 2, "hidden_size": 64, "num_heads": 2, "intermediate_size": 128, "out_hidden_size": 256},
}


def seeing(pixels: int, length: int, frozen: bool = True, **changes: object) -> Run:
    """A run of LLaMA-Factory's of a model that reads images of so many pixels."""
    parts = dict.fromkeys(("method__freeze_vision_tower", "method__freeze_multi_modal_projector"), frozen)
    sequence = Sequence(length, image_max_pixels=pixels, video_max_pixels=65_536)
    named = {**LLAMAFACTORY, "model__architecture": from_config(QWEN_VL)}
    return run(**{**named, **parts, "sequence": sequence, **changes})


def test_images_can_be_smaller_where_pixels_are_what_is_held() -> None:
    large = seeing(4_194_304, 1024)
    assert price(large, "images of 4194304 -> 589824").quality == "medium"
    assert price(large, "images of 4194304 -> 65536").quality == "high"
    assert "images of" not in titles(seeing(589_824, 2048))  # 752 tokens an image: the length is the bound
    assert "images of" in titles(seeing(589_824, 2048, frozen=False))
    assert "images of" not in titles(run())


def test_a_vision_tower_that_trains_can_be_frozen() -> None:
    training = seeing(589_824, 2048, frozen=False)
    alone = [found for found in steps(training) if found.group == "tower"]
    assert [len(found.changes) for found in alone] == [1, 2]
    assert [between(training, replace(training, one.changes), (MODEL, MODEL)).quality for one in alone] == [
        "low",
        "medium",
    ]
    axolotl = [found for found in steps(replace(training, AXOLOTL)) if found.group == "tower"]
    assert [len(found.changes) for found in axolotl] == [2]  # one key for both
    assert "freeze the vision tower" not in titles(seeing(589_824, 2048))
    assert "freeze the vision tower" not in titles(seeing(1, 1, frozen=False, method__freeze_language_model=True))


FOUR_BITS = Quantization("bnb", 4, "nf4", True, storage_dtype="bfloat16")


def test_zero_3_shares_4_bit_weights_that_are_stored_in_the_compute_dtype() -> None:
    several = {**LORA, "parallelism": Parallelism(4, 4, 4, engine="ddp"), "precision__compute": "bfloat16"}
    stored = run(**several, model__quantization=FOUR_BITS)
    packed = {**several, "model__quantization": FOUR_BITS._replace(storage_dtype="uint8")}
    key = "model.quantization.storage_dtype"

    assert "ZeRO-3" in titles(stored)
    assert "ZeRO-2" in titles(stored)  # which leaves the weights as they are, however they are stored
    assert "ZeRO-2" in titles(run(**packed, **OLD_TRL))
    assert key not in step(stored, "shard over the 4 GPUs with ZeRO-3, parameters and").changes
    assert step(run(**packed, **TRL), "shard over the 4 GPUs with ZeRO-3, parameters and").changes[key] == "bfloat16"
    for other in (OLD_TRL, AXOLOTL):
        assert "ZeRO-3" not in titles(run(**packed, **other))
    divided = run(**LORA, **AXOLOTL, parallelism=Parallelism(4, 4, 4, engine="fsdp"), precision__compute="bfloat16")
    assert step(divided, "4-bit base (QLoRA)").changes[key] == "bfloat16"  # what the framework does by itself
    assert "4-bit base" not in titles(divided._replace(planning=Planning()))
    sharded = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2}
    (plain,) = [one for one in steps(replace(stored, sharded)) if one.title == "ZeRO stage 2 -> 3"]
    assert plain.changes == {
        "parallelism.zero.stage": 3,
        "parallelism.zero.gather_16bit_weights_on_model_save": True,
    }


def test_what_follows_from_a_change_is_planned_with_it() -> None:
    """One switch has Liger's loss and its kernels, TRL's adapters have a dropout, a new section's buckets follow the
    model's width, and `pure_bf16` computes in bfloat16."""

    def after(changes: dict[str, object], **before: object) -> Run:
        one = run(**before)
        return consistent(replace(one, changes), one)

    liger = {"loss.kind": "liger"}
    assert after(liger, **LLAMAFACTORY).loss.liger_kernels
    assert not after(liger, **AXOLOTL).loss.liger_kernels
    assert after({"method.kind": "lora"}, **TRL).method.dropout == 0.05
    assert after({"method.kind": "lora"}, **LLAMAFACTORY).method.dropout == 0.0
    section = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3, "offload.optimizer": "cpu"}
    sharded, hidden = after(section, optimizer__name="adamw_torch"), run().model.architecture.hidden_size
    assert sharded.parallelism.zero.reduce_bucket_size == hidden * hidden
    assert sharded.parallelism.zero.overlap_comm
    assert (sharded.optimizer.name, sharded.optimizer.engine) == ("cpu_adam", "deepspeed")
    pure = {"precision.autocast": False, "precision.trainable_dtype": "bfloat16"}
    assert after(pure, precision__compute="float16", precision__autocast=True).precision.compute == "bfloat16"


def test_adapters_beside_stacked_experts_have_no_dropout() -> None:
    """PEFT refuses it there, and TRL has one unless told otherwise."""
    mixture = {**TINY, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
    one = run(mixture, **TRL, method__kind="full")
    changes = step(one, "train a LoRA adapter").changes

    assert changes["method.dropout"] == 0.0
    assert consistent(replace(one, dict(changes)), one).method.dropout == 0.0
    for other in (run(mixture, **LLAMAFACTORY), run(**TRL)):
        assert "method.dropout" not in step(other, "train a LoRA adapter").changes


@pytest.mark.parametrize("changes", [{}, LORA, {"parallelism": Parallelism(4, 4, 4, engine="ddp")}], ids=str)
def test_a_move_leaves_each_field_its_type(changes: dict[str, Any]) -> None:
    before = run(checkpointing__mode="none", attention__implementation="eager", **changes)
    moved = 0
    for step in steps(before):
        after = replace(before, step.changes)
        for name in step.changes:
            old, new = get(before, name), get(after, name)
            moved += 1
            assert isinstance(new, type(old)) or old in (None, UNKNOWN) or {type(old), type(new)} <= {int, float}, name
    assert moved > 5


def test_a_list_of_a_rule_file_is_the_tuple_of_the_field() -> None:
    before = run(**LORA)
    changed = replace(before, {"method.targets": ["all-linear"]})
    assert changed.method.targets == ("all-linear",)
    assert estimate(changed) == estimate(before)


def test_evaluation_follows_the_key_that_says_the_batch_of_both() -> None:
    said = Origin("file", "train.yaml", 3, 1, ("micro_batch_size",))
    sizes = {"batch.micro_batch_size": 8, "evaluation.batch_size": 8}
    fewer = {"batch.micro_batch_size": 2, "batch.gradient_accumulation_steps": 4}
    together = replace(run(), sizes)._replace(origins=dict.fromkeys(sizes, said))
    apart = replace(run(), sizes)._replace(origins={"batch.micro_batch_size": said})

    assert consistent(replace(together, fewer), together).evaluation.batch_size == 2
    assert consistent(replace(apart, fewer), apart).evaluation.batch_size == 8
    asked = replace(together, {**fewer, "evaluation.batch_size": 4})
    assert consistent(asked, together).evaluation.batch_size == 4


def test_what_deepspeed_moves_to_the_host_is_pinned_there() -> None:
    before = run(parallelism=Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(2)))
    moved = consistent(replace(before, {"offload.optimizer": "cpu"}), before)

    assert moved.offload.optimizer_pinned
    assert not moved.offload.parameters_pinned


def test_fsdp_may_reduce_gradients_after_each_micro_batch() -> None:
    sharded = Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(2))
    several = run(parallelism=sharded, batch__micro_batch_size=1, batch__gradient_accumulation_steps=4)
    assert step(several, "reduce gradients").changes == {"parallelism.fsdp.reduces_each_backward": True}
    assert "accumulation 4 -> 1" in titles(several)
    already = replace(several, {"parallelism.fsdp.reduces_each_backward": True})
    for other in (run(parallelism=sharded, batch__gradient_accumulation_steps=1), already):
        assert "reduce gradients" not in titles(other) and "-> 1:" not in titles(other)


def test_the_whole_batch_at_once_where_accumulation_takes_room() -> None:
    sharded = Parallelism(4, 4, 4, engine="fsdp", fsdp=Fsdp(1))
    several = run(parallelism=sharded, batch__micro_batch_size=4, batch__gradient_accumulation_steps=4)
    assert step(several, "micro batch 4 -> 16").changes == {
        "batch.micro_batch_size": 16,
        "batch.gradient_accumulation_steps": 1,
    }
    on_host = replace(several, {"parallelism.engine": "deepspeed", "offload.optimizer": "cpu"})
    assert "micro batch 4 -> 16" in titles(on_host)
    on_card = replace(on_host, {"offload.optimizer": "none"})
    for other in (on_card, replace(several, {"batch.gradient_accumulation_steps": 1})):
        assert "micro batch 4 -> 16" not in titles(other)


def test_experts_in_one_parameter_are_quantised_by_a_change_of_their_own() -> None:
    mixture = {**TINY, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8}
    four = Quantization("bnb", 4, "nf4")
    one = run(mixture, **{**LORA, "model__quantization": four})
    assert step(one, "quantise the experts").changes == {"model.quantization.experts_on_load": True}
    assert price(one, "quantise the experts").quality == "low"
    packed = replace(one, {"model.quantization.experts_on_load": True})
    older = replace(one, {"stack.transformers": (4, 57)})
    for other in (packed, older, run(mixture, **LORA), run(**{**LORA, "model__quantization": four})):
        assert "quantise the experts" not in titles(other)


@pytest.mark.parametrize("optimizer", [{"optimizer__rank": 128}, {"optimizer__badam_mode": "layer"}], ids=str)
def test_adapters_take_adamw_in_place_of_an_optimizer_for_full_training(optimizer: dict[str, Any]) -> None:
    before = run(method__kind="full", **optimizer)
    found = step(before, "train a LoRA adapter")
    assert found.changes["optimizer.name"] == "adamw_torch" and "AdamW" in found.title
    other = replace(before, {"optimizer.name": "galore_adamw", "optimizer.layerwise": True})
    after = consistent(replace(other, found.changes), other).optimizer
    assert not (after.rank or after.badam_mode or after.layerwise)
    assert "optimizer.name" not in step(run(method__kind="full"), "train a LoRA adapter").changes
