"""Advice to have an inference engine write the completions of a run whose own model writes them: nothing that memlint
writes, for another package starts beside the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memlint.findings import Fix
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.rollout import divided_over, least_share
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
_SHARES = (0.3, 0.4, 0.5, 0.6)  # TRL 1.16 grpo_config.py takes 0.3 of each card unless said
_AWAY = {"rollout.generator": "vllm_colocate", "rollout.sleep_level": 1, "rollout.sequences": 0}


def advice(run: Run, before: Estimate, estimator: Estimator) -> Iterator[Fix]:
    """vLLM on the same cards, over as few of them as is enough: it gathers no layer of a model that is divided, and
    its memory is free while the model trains (Kwon et al. 2023, arXiv 2309.06180; vllm docs, Sleep Mode)."""
    if run.method.stage != "grpo" or run.rollout.generator != "model" or not run.planning.colocated_engine:
        return
    for ranks in (1, *divided_over(run, 1)):
        changes = {**_AWAY, "rollout.tensor_parallel_size": ranks}
        started = replace(run, changes)
        share = next((one for one in _SHARES if one >= least_share(started)), None)
        if share is None:
            continue
        changes["rollout.share"] = share
        after = estimator(consistent(replace(run, changes), run, changes))
        if after.verdict == "fits":
            keys = run.planning.colocated_engine.replace("{ranks}", str(ranks)).replace("{share}", str(share))
            yield Fix(
                "generate with vLLM on the same cards",
                changes=changes,
                before=before.on_card,
                after=after.on_card,
                verdict_after="fits",
                note=f"{keys}; the vllm package must be installed",
            )
            return
