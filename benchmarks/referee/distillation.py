"""Distillation's loss beside steps on fake tensors: the student's update next to a teacher's logits.

    python benchmarks/referee/distillation.py            each case: forward, backward, the higher of both
    python benchmarks/referee/distillation.py --write    the same, written to benchmarks/data/distillation.jsonl

Where the loss takes some rows at a time, the closed form is an upper bound for the backward, which is the lower of the
two. torch's own operators run. The loss is that of trl 1.16 (experimental/gkd/gkd_trainer.py, generalized_jsd_loss),
of ms-swift 4.6.0 (rlhf_trainers/gkd_loss.py) and of OpenRLHF 0.9.10 (trainer/kd_trainer.py), written anew.
The teacher's logits are a tensor beside the student's, and every position has a label.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
import torch.nn.functional as F

import benchmarks.referee.beside as beside
import benchmarks.referee.fake_step as fake_step
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.precision as precision
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Run,
    Sequence,
)
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "distillation.jsonl"
SIZES = ((2, 512), (3, 1024))
BETAS = {"mixture": 0.5, "forward": 0.0, "reverse": 1.0}
ROWS = 512  # that ms-swift takes at a time
WORDS = 20  # of each distribution
WRITTEN = 256  # tokens behind a prompt, the only ones that TRL compares before 1.7


def cases() -> Iterator[dict[str, Any]]:
    for (kind, model), (rows, length), (name, in_chunks, wide) in itertools.product(
        MODELS, SIZES, itertools.product(BETAS, (False, True), (False, True))
    ):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": rows, "S": length, "kind": name} | {
            "in_chunks": in_chunks,
            "fp32": wide,
        }
    for (kind, model), (rows, length) in itertools.product(MODELS, SIZES):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": rows, "S": length, "kind": "likelihood"} | {
            "in_chunks": False,
            "fp32": True,
        }
    for (kind, model), (rows, length), (name, wide) in itertools.product(
        MODELS, SIZES, itertools.product(("few", "few_served"), (False, True))
    ):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": rows, "S": length, "kind": name} | {
            "in_chunks": False,
            "fp32": wide,
        }
    for (kind, model), name in itertools.product(MODELS[:2], BETAS):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": 3, "S": 1024, "kind": name} | {
            "in_chunks": False,
            "fp32": True,
            "written": WRITTEN,
        }
    for (kind, model), name in itertools.product(MODELS[:2], BETAS):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": 3, "S": 1024, "kind": name} | {
            "in_chunks": True,
            "fp32": True,
            "labels": True,
        }


def whole(student: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor, beta: float) -> torch.Tensor:
    """The loss of TRL."""
    student, teacher = student / 0.9, teacher / 0.9
    mine, theirs = F.log_softmax(student, dim=-1), F.log_softmax(teacher, dim=-1)
    if beta == 0:
        found = F.kl_div(mine, theirs, reduction="none", log_target=True)
    elif beta == 1:
        found = F.kl_div(theirs, mine, reduction="none", log_target=True)
    else:
        share = torch.tensor(beta, dtype=mine.dtype)
        mixed = torch.logsumexp(torch.stack([mine + torch.log1p(-share), theirs + torch.log(share)]), dim=0)
        from_teacher = F.kl_div(mixed, theirs, reduction="none", log_target=True)
        from_student = F.kl_div(mixed, mine, reduction="none", log_target=True)
        found = share * from_teacher + (1 - share) * from_student
    return found.index_select(1, labels).sum()


def by_rows(student: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor, beta: float) -> torch.Tensor:
    """The loss of ms-swift."""
    mine_picked, theirs_picked = student.index_select(1, labels), teacher.index_select(1, labels)
    width = student.shape[-1]
    mine_all, theirs_all = (mine_picked / 0.9).view(-1, width), (theirs_picked / 0.9).view(-1, width)
    total = mine_all.new_zeros(())
    share = torch.tensor(beta, dtype=mine_all.dtype)
    for start in range(0, mine_all.shape[0], ROWS):
        mine = F.log_softmax(mine_all[start : start + ROWS], dim=-1)
        theirs = F.log_softmax(theirs_all[start : start + ROWS], dim=-1)
        if beta == 0:
            found = _kl(mine, theirs)
        elif beta == 1:
            found = _kl(theirs, mine)
        else:
            mixed = torch.logsumexp(torch.stack([mine + torch.log1p(-share), theirs + torch.log(share)]), dim=0)
            found = share * _kl(mixed, theirs) + (1 - share) * _kl(mixed, mine)
        total = total + found.sum()
    return total


class _Picked(torch.autograd.Function):
    """The rows that have labels, and of each row a few words, with the gradients that real tensors get: torch adds to
    zeros in place, and for fake tensors to a copy of them (torch 2.13 gather_backward, index_backward)."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, at: torch.Tensor, dim: int) -> torch.Tensor:
        ctx.shape, ctx.dim = source.shape, dim
        ctx.save_for_backward(at)
        return torch.gather(source, dim, at) if dim < 0 else source.index_select(dim, at)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (at,) = ctx.saved_tensors
        zeros = gradient.new_zeros(ctx.shape)
        add = zeros.scatter_add_ if ctx.dim < 0 else zeros.index_add_
        return add(ctx.dim, at, gradient), None, None


def of_few_words(
    student: torch.Tensor, teacher: torch.Tensor | None, labels: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """The loss of ms-swift with `gkd_logits_topk` (rlhf_trainers/gkd_loss.py, extract_active and gkd_loss)."""
    if teacher is None:
        values, words = torch.empty(*ids.shape, WORDS), torch.zeros(*ids.shape, WORDS, dtype=torch.int64)
    else:
        values, words = torch.topk(teacher, k=WORDS, dim=-1)
    width = student.shape[-1]
    mine = _Picked.apply(student, labels, 1).view(-1, width)
    theirs, words = (part.index_select(1, labels).view(-1, WORDS) for part in (values, words))
    return _kl(F.log_softmax(_Picked.apply(mine, words, -1) / 0.9, dim=-1), F.log_softmax(theirs / 0.9, dim=-1)).sum()


def with_likelihood(logits: torch.Tensor, teacher: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The loss of OpenRLHF, over all positions."""
    width = logits.shape[-1]
    shifted = logits[..., :-1, :].contiguous()
    likelihood = F.cross_entropy(shifted.view(-1, width), labels[..., 1:].contiguous().view(-1))
    del shifted
    probabilities = F.softmax(teacher, dim=-1, dtype=torch.float32)
    mask = torch.isinf(logits)
    mine = F.log_softmax(logits, dim=-1, dtype=torch.float32)
    products = torch.masked_fill(probabilities * mine, mask, 0)
    return likelihood - products.sum(dim=-1).view(-1).sum()


def _kl(log: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (torch.exp(target) * (target - log)).sum(-1)


def _likelihood_loss(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """The loss, and what the training loop holds: both models' logits."""
    logits = model(input_ids=ids, use_cache=False).logits.to(torch.float32)
    teacher = torch.empty_like(logits, requires_grad=False)
    return with_likelihood(logits, teacher, ids), (logits, teacher)


def _loss(model: Any, ids: torch.Tensor, case: dict[str, Any]) -> torch.Tensor:
    with precision.autocast(torch.bfloat16):
        outputs = model(input_ids=ids, use_cache=False)
        labels_loss = _labels_loss(outputs.logits, ids) if "labels" in case else None
    logits = outputs.logits.float() if case["fp32"] else outputs.logits
    del outputs
    if case["kind"] in ("few", "few_served"):
        others = torch.empty_like(logits, requires_grad=False) if case["kind"] == "few" else None
        return of_few_words(logits, others, torch.zeros(ids.shape[1], dtype=torch.int64), ids)
    teacher = torch.empty_like(logits, requires_grad=False)
    first = ids.shape[1] - 1 - case.get("written", ids.shape[1] - 1)
    labels = torch.zeros(ids.shape[1] - 1 - first, dtype=torch.int64)
    compute = by_rows if case["in_chunks"] else whole
    found = compute(logits[:, first:-1], teacher[:, first:-1], labels, BETAS[case["kind"]])
    return found if labels_loss is None else found + labels_loss


def _labels_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """What a model returns that gets labels (transformers 5.23 loss/loss_utils.py, ForCausalLMLoss)."""
    in_fp32 = logits.float()
    return F.cross_entropy(in_fp32.view(-1, in_fp32.shape[-1]), ids.view(-1))


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""

    def step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
        (model,) = models
        checkpoints.enable(model, checkpoints.Kind(False, False, False), tracker)
        model.train()
        tracker.begin("forward")
        if case["kind"] == "likelihood":
            loss, held = _likelihood_loss(model, ids)
        else:
            loss, held = _loss(model, ids, case), ()
        tracker.begin("backward")
        loss.backward()
        del held

    return fake_step.phases(case, step)


def _precision(wide: bool, likelihood: bool) -> Precision:
    """OpenRLHF converts the logits in its model's forward; accelerate the outputs, under autocast."""
    if likelihood:
        return Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False, upcast_lmhead_output=True)
    return Precision("bfloat16", True, "bfloat16", False, outputs_to_fp32=wide)


def predicted(case: dict[str, Any]) -> dict[str, int]:
    likelihood = case["kind"] == "likelihood"  # OpenRLHF trains without autocast, and holds what both models gave
    run = Run(
        "test",
        "",
        model=Model(architecture=from_config(case["config"]), weights_dtype="bfloat16"),
        method=Method("full", stage="gkd"),
        precision=_precision(case["fp32"], likelihood),
        batch=Batch(case["B"], 1),
        sequence=Sequence(case["S"], max_new_tokens=case.get("written", 0)),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full", reentrant=False),
        loss=Loss(
            "plain",
            upcast_logits=False,
            keeps_logits=likelihood,
            divergence=case["kind"],
            in_row_chunks=case["in_chunks"],
            compared_tokens=case.get("written", 0),
            labels_beside_teacher="labels" in case,
            prompt_logits=True,
        ),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )
    found = {one.name: one for one in estimate(run).phases}
    return {name: one.allocated_bytes - one.components["weights"] for name, one in found.items()}


def main() -> int:
    return beside.main(
        __doc__, DATA, cases, lambda case: _with_step(simulated(case)), lambda case: _with_step(predicted(case)), _title
    )


def _with_step(phases: dict[str, int]) -> dict[str, int]:
    """The higher of both: where the loss takes some rows at a time, the closed form is a bound for the other."""
    return {**phases, "step": max(phases["forward"], phases["backward"])}


def _title(case: dict[str, Any]) -> str:
    loss = f"{'rows ' if case['in_chunks'] else 'whole'} {'fp32' if case['fp32'] else 'half'}"
    return f"{case['config_class']:14} {case['B']}x{case['S']:<5} {case['kind']:8} {loss}"


if __name__ == "__main__":
    raise SystemExit(main())
