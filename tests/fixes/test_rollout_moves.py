"""Moves of reinforcement learning: the engine's sleep and share, forwards before the update, a bound on tokens."""

from __future__ import annotations

from memlint.fixes.moves.rollout import engine, generation, log_probabilities, tokens
from tests.memory.runs import run

COLOCATED = {"rollout__generator": "vllm_colocate", "rollout__share": 0.5}


def test_an_engine_sleeps_or_takes_less() -> None:
    assert [step.changes for step in engine(run(**COLOCATED))] == [{"rollout.sleep_level": 2}, {"rollout.share": 0.2}]
    assert [step.changes for step in engine(run(**COLOCATED, rollout__sleep_level=1))] == [{"rollout.share": 0.2}]
    assert list(engine(run())) == []


def test_forwards_before_the_update_shrink_to_one_sequence() -> None:
    one = run(rollout__log_prob_micro_batch_size=4, rollout__reference_micro_batch_size=2)
    assert [step.changes for step in log_probabilities(one)] == [
        {"rollout.log_prob_micro_batch_size": 2},
        {"rollout.log_prob_micro_batch_size": 1, "rollout.reference_micro_batch_size": 1},
    ]
    assert list(log_probabilities(run())) == []


def test_a_bound_on_tokens_stays_above_the_longest_sequence() -> None:
    one = run(batch__max_tokens=4096, sequence__length=1024)
    assert [step.changes["batch.max_tokens"] for step in tokens(one)] == [2048, 1024]
    assert list(tokens(run())) == []


def test_fewer_completions() -> None:
    said = [step.title for step in generation(run(method__stage="grpo", method__num_generations=8))]
    assert said == ["8 -> 4 completions a prompt", "8 -> 2 completions a prompt"]
