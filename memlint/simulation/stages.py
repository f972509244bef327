"""Training steps whose loss the trainer computes from the model's output, with the same allocations.

Each function takes the wrapped forward, the inputs and the model, and returns the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

Forward = Callable[..., Any]


def plain(forward: Forward, inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """The model's own loss."""
    return forward(**inputs)


def smoothed(forward: Forward, inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """transformers 5.23 trainer_pt_utils.py, LabelSmoother; the labels are taken from the model."""
    from transformers.trainer_pt_utils import LabelSmoother

    outputs = forward(input_ids=inputs["input_ids"])
    return {"loss": LabelSmoother()(outputs, inputs["labels"], shift_labels=True), "kept": outputs}


def preference(forward: Forward, inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """ORPO and SimPO in LLaMA-Factory 0.9.5 (train/dpo/trainer.py:185, train/trainer_utils.py:620)."""
    _, chosen = _log_probabilities(forward, inputs)
    return {"loss": chosen.mean()}


def preference_and_likelihood(forward: Forward, inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """ORPO, CPO and SimPO in trl 1.16 (experimental/cpo/cpo_trainer.py, concatenated_forward): the chosen answers' own
    cross entropy first, then the log-probabilities of both."""
    logits = forward(input_ids=inputs["input_ids"])["logits"].to(torch.float32)
    half = logits.shape[0] // 2
    shifted, labels = logits[:half, :-1, :].contiguous(), inputs["labels"]
    likelihood = torch.nn.functional.cross_entropy(shifted.view(-1, shifted.shape[-1]), labels[:half, 1:].reshape(-1))
    del shifted
    index = labels[:, 1:].clone().unsqueeze(2)
    each = torch.gather(logits[:, :-1, :].log_softmax(-1), dim=2, index=index).squeeze(2)
    return {"loss": each.sum(-1).mean() + likelihood}


def against_reference(forward: Forward, inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """DPO: the same model without its adapter, while the policy's graph and logits are alive
    (train/dpo/trainer.py:215-260)."""
    logits, policy = _log_probabilities(forward, inputs)
    switched_off = model.disable_adapter() if hasattr(model, "disable_adapter") else nullcontext()
    with torch.no_grad(), switched_off:
        _, reference = _log_probabilities(forward, inputs)
    del logits
    return {"loss": (policy - reference).mean()}


def _log_probabilities(forward: Forward, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """All logits in float32 and the sums of the labels' log-probabilities."""
    labels = inputs["labels"][:, 1:].clone()
    logits = forward(input_ids=inputs["input_ids"])["logits"].to(torch.float32)
    each = torch.gather(logits[:, :-1, :].log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return logits, each.sum(-1)


STAGES: Mapping[str, Callable[..., Any]] = {
    "": plain,
    "smoothed": smoothed,
    "preference": preference,
    "preference_and_likelihood": preference_and_likelihood,
    "against_reference": against_reference,
}
PAIRED = frozenset(("preference", "preference_and_likelihood", "against_reference"))  # two sequences for each sample
