"""What images add to the estimate, against a simulated step that reads them."""

from __future__ import annotations

import warnings

import pytest

from memlint.memory import estimate
from memlint.memory.vision.images import encoded_tokens, max_image_bytes, tokens_of_image
from memlint.run import UNKNOWN, replace
from tests.architectures.small import SMALL
from tests.comparisons.families import Step, run_of
from tests.comparisons.vision_inputs import MODELS, simulated
from tests.comparisons.vision_steps import FLAGS
from tests.frameworks import LLAMAFACTORY


@pytest.mark.parametrize("name", ["llava", "gemma3"])
def test_a_step_with_images_lies_in_the_interval_of_a_frozen_tower(name: str) -> None:
    config, images = MODELS[name]
    run = replace(run_of(config, Step("lora", True, "sdpa")), {**dict.fromkeys(FLAGS, True), **LLAMAFACTORY})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peak = simulated(run, config, images, 768 // images.tokens).peak
    found = estimate(run)
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    assert found.allocated_low_bytes <= peak <= found.allocated_high_bytes * 1.002
    assert found.allocated_high_bytes < peak * 1.03  # the family's own interval is in it


@pytest.mark.parametrize(("name", "count"), [("llava", 1), ("gemma3", 3), ("qwen2_5_vl", 2)])
def test_a_known_number_of_images_is_one_figure(name: str, count: int) -> None:
    """Beside a simulated step that reads as many images."""
    config, images = MODELS[name]
    kind = "lora" if name != "qwen2_5_vl" else "full"
    run = replace(run_of(config, Step(kind, True, "sdpa")), {**dict.fromkeys(FLAGS, True), **LLAMAFACTORY})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peak = simulated(run, config, images, count).peak
    stated = {"sequence.images": count}
    if not run.model.architecture.towers[0].tokens_per_image:
        side = run.model.architecture.towers[0].patch_size * run.model.architecture.towers[0].merge_size
        stated |= {"sequence.image_max_pixels": images.tokens * side**2}
    found = estimate(replace(run, stated))
    assert found.allocated_bytes == pytest.approx(peak, rel=0.03)
    assert found.details["image_tokens"] == found.details["most_image_tokens"] == count * images.tokens


def test_no_image_is_the_text_alone() -> None:
    run = replace(
        run_of(MODELS["llava"][0], Step("lora", True, "sdpa")), {**dict.fromkeys(FLAGS, True), **LLAMAFACTORY}
    )
    text, open_ = estimate(replace(run, {"sequence.images": 0})), estimate(run)
    assert text.allocated_bytes == open_.allocated_bytes
    assert (text.allocated_high_bytes or text.allocated_bytes or 0) < (open_.allocated_high_bytes or 0)


def test_a_text_model_reads_no_images() -> None:
    assert max_image_bytes(run_of({"model_type": "llama", **SMALL}, Step("full", False, "sdpa"))) == 0


def test_transformers_own_checkpointing_keeps_a_frozen_towers_inputs() -> None:
    run = run_of(MODELS["llava"][0], Step("lora", True, "sdpa"))
    assert max_image_bytes(run) > max_image_bytes(replace(run, LLAMAFACTORY))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("field", ["sequence.image_max_pixels", "sequence.video_max_pixels"])
def test_memory_is_unknown_where_a_placeholder_says_how_large_images_are(field: str, frozen: bool) -> None:
    run = run_of(MODELS["qwen2_5_vl"][0], Step("full", True, "sdpa"))
    scaled = {"sequence.image_max_pixels": 589_824, "sequence.video_max_pixels": 65_536, field: UNKNOWN}
    found = estimate(replace(run, {**dict.fromkeys(FLAGS, frozen), **LLAMAFACTORY, **scaled}))
    assert [missing.field for missing in found.unknown] == [field]


def test_a_projector_that_trains_alone_is_simulated_as_it_is_estimated() -> None:
    """Its gradient passes through the frozen language model."""
    config, images = MODELS["llava"]
    flags = {"method.freeze_vision_tower": True, "method.freeze_language_model": True}
    run = replace(run_of(config, Step("full", True, "sdpa")), {**flags, **LLAMAFACTORY})
    run = replace(run, {"method.freeze_multi_modal_projector": False, "sequence.images": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = simulated(run, config, images, 1)
    found = estimate(run)
    assert step.trainable_parameters == found.trainable_parameters
    assert found.allocated_bytes == pytest.approx(step.peak, rel=0.03)


def test_an_image_that_nobody_counts_fills_a_sequence_at_most() -> None:
    """A processor may keep larger ones, which no sequence holds: with these a step fails, whatever its card."""
    run = run_of(MODELS["qwen2_5_vl"][0], Step("full", True, "sdpa"))
    run = replace(run, {**dict.fromkeys(FLAGS, True), **LLAMAFACTORY, "sequence.image_max_pixels": 12_845_056})
    assert isinstance(run.sequence.length, int)
    open_, stated = estimate(run), estimate(replace(run, {"sequence.images": 1}))
    assert open_.details["tokens_per_image"] <= 1.1 * run.sequence.length < stated.details["tokens_per_image"]
    assert open_.allocated_bytes is not None and stated.allocated_bytes is not None
    assert open_.allocated_bytes < stated.allocated_bytes <= (open_.allocated_high_bytes or 0) * 1.01


def test_images_that_stand_in_prompts_alone_are_bounded_by_them() -> None:
    """verl and EasyR1 count an image's tokens with its prompt's and drop or refuse a prompt that is too long."""
    run = replace(run_of(MODELS["qwen2_5_vl"][0], Step("full", True, "sdpa")), {"sequence.max_prompt_length": 64})
    tower, length = run.model.architecture.towers[0], run.sequence.length
    assert isinstance(length, int) and length > 64
    assert encoded_tokens(run, tower, length) == length
    in_prompts = replace(run, {"sequence.images_in_prompts": True})
    assert encoded_tokens(in_prompts, tower, length) == 64 and tokens_of_image(in_prompts, tower, length) == 64
    assert encoded_tokens(in_prompts, tower, 32) == 32
