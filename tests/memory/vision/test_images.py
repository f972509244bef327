"""What images add to the estimate, against a simulated step that reads them."""

from __future__ import annotations

import warnings

import pytest

from memlint.memory import estimate
from memlint.memory.vision.images import max_image_bytes
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
        peak = simulated(run, config, 768 // images.tokens).peak
    found = estimate(run)
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    assert found.allocated_low_bytes <= peak <= found.allocated_high_bytes * 1.002
    assert found.allocated_high_bytes < peak * 1.03  # the family's own interval is in it


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
