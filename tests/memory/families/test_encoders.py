"""Encoders beside simulated steps: norms after sums, the head for masked words, embeddings that are narrower."""

from __future__ import annotations

import pytest

import memlint.memory.families.lookup as lookup
from memlint.memory.estimate import estimate
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of

STEPS = [Step("full", False, "sdpa"), Step("pure", True, "sdpa"), Step("lora", True, "eager")]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("family", ["bert", "distilbert", "electra", "modernbert", "nomic_bert", "eurobert"])
def test_a_step_is_that_of_the_real_class(family: str, step: Step) -> None:
    config = members()[family]
    run = run_of(config, step)
    found, real = estimate(run), simulate(run, config)
    assert (found.parameters, found.trainable_parameters) == (real.parameters, real.trainable_parameters)
    assert found.allocated_bytes == pytest.approx(real.peak, rel=0.012)


def test_norms_without_weights_follow_the_rotation_in_nanochat() -> None:
    config, step = members()["nanochat"], Step("full", False, "sdpa")
    found, real = estimate(run_of(config, step)), simulate(run_of(config, step), config)
    assert found.allocated_bytes == pytest.approx(real.peak, rel=0.001)


# The release before the first one with `_supports_sdpa` in the model's code, and that one.
SDPA = {
    "bert": ((4, 40), (4, 41)),
    "roberta": ((4, 44), (4, 45)),
    "distilbert": ((4, 45), (4, 46)),
    "electra": ((4, 57), (5, 0)),
    "bart": ((4, 35), (4, 36)),
    "marian": ((4, 52), (4, 53)),
    "pegasus": ((4, 52), (4, 53)),
    "whisper": ((4, 35), (4, 36)),
    "m2m_100": ((4, 44), (4, 45)),
    "biogpt": ((4, 44), (4, 45)),
    "persimmon": ((4, 52), (4, 53)),
    "esm": ((4, 55), (4, 56)),
}


@pytest.mark.parametrize(("family", "releases"), SDPA.items())
def test_older_releases_run_eager_attention(family: str, releases: tuple[tuple[int, ...], ...]) -> None:
    before, since = releases
    sdpa = lookup.of_model_type(family).attention.sdpa
    assert not sdpa.include(before)
    assert sdpa.include(since)


def test_before_torch_1_11_a_softmax_keeps_its_input() -> None:
    """bert-large in fp32, 4 x 512, without checkpointing: 64 MiB of scores in each of 24 layers more (tests of
    benchmarks/data/published_figures.jsonl, perf_train_gpu_one)."""
    run = run_of(members()["bert"], Step("full", False, "eager"))
    peaks = []
    for release in ((1, 10, 1), (1, 11)):
        found = estimate(run._replace(stack=run.stack._replace(torch=release)))
        peaks.append(next(one.allocated_bytes for one in found.phases if one.name == "forward"))
    attention, layers = run.model.architecture.layer_types[0].attention, len(run.model.architecture.layer_type_ids)
    scores = 4 * run.batch.micro_batch_size * attention.heads * run.sequence.length**2
    assert peaks[0] - peaks[1] == layers * scores
