"""A step of a classifier, beside fake tensors: transformers' classes for sequences, tokens and answers in a text.

    python benchmarks/referee/classifiers.py            each case: forward and backward
    python benchmarks/referee/classifiers.py --write    the same, written to benchmarks/data/classifiers.jsonl

The classes are transformers' own (5.23 modeling_layers.py, GenericForSequenceClassification and its relatives; those of
BERT's relatives): the layers, and in place of the head of words a few scores, for each sequence or each token.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.beside as beside
import benchmarks.referee.fake_step as fake_step
import memlint.simulation.attention as attention_functions
import memlint.simulation.checkpoints as checkpoints
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import Attention, Batch, Checkpointing, Loss, Method, Model, Optimizer, Parallelism, Precision, Run
from memlint.run import Sequence as Lengths
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "classifiers.jsonl"
_SCORES = {"SequenceClassification": 3, "TokenClassification": 9, "QuestionAnswering": 2}
ENCODERS: tuple[tuple[str, dict[str, Any]], ...] = tuple(
    (f"{name}Config", {"model_type": kind, **sizes, "vocab_size": 30_000, "max_position_embeddings": 1100})
    for name, kind, sizes in (
        *((name, kind, SHAPE | LAYERS) for name, kind in (("Bert", "bert"), ("Roberta", "roberta"))),
        ("Electra", "electra", {**SHAPE, **LAYERS, "embedding_size": 128}),
        ("DistilBert", "distilbert", {"dim": 512, "hidden_dim": 1536, "n_layers": 8, "n_heads": 8}),
    )
)


SIZE = {"B": 4, "S": 1024}


def cases() -> Iterator[dict[str, Any]]:
    shapes = ({**SHAPE, **LAYERS}, {**SHAPE, **LAYERS, "tie_word_embeddings": True})
    decoders = tuple((kind, {**model, **shape}) for (kind, model), shape in itertools.product(MODELS[:3], shapes))
    for (kind, config), task, recomputes in itertools.product((*decoders, *ENCODERS), _SCORES, (False, True)):
        yield {"config_class": kind, "config": config, "task": task, "checkpointing": recomputes, **SIZE}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""
    return fake_step.phases(case, _step_of(case), _models)


def _models(case: dict[str, Any]) -> fake_step.Models:
    import transformers

    settings: Any = getattr(transformers, case["config_class"])(
        **case["config"], use_cache=False, pad_token_id=1, num_labels=_SCORES.get(case["task"], 2)
    )
    settings._attn_implementation = attention_functions.implementation("sdpa")
    settings.dtype = torch.bfloat16
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            model: Any = getattr(
                transformers, f"AutoModelFor{case['task']}" if case["task"] else "AutoModel"
            ).from_config(settings)
    finally:
        torch.set_default_dtype(default)
    return (model,)


def _step_of(case: dict[str, Any]) -> fake_step.Step:
    def step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
        (model,) = models
        if case["checkpointing"]:
            checkpoints.enable(model, checkpoints.Kind(), tracker)
        model.train()
        tracker.begin("forward")
        loss = model(input_ids=ids, **_labels(case["task"], ids)).loss
        tracker.begin("backward")
        loss.backward()

    return step


def _labels(task: str, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    first = ids[:, 0]
    if task == "QuestionAnswering":
        return {"start_positions": first, "end_positions": first}
    return {"labels": ids if task == "TokenClassification" else first}


def predicted(case: dict[str, Any]) -> dict[str, int]:
    found = {one.name: one for one in estimate(_run_of(case)).phases}
    return {name: one.allocated_bytes - one.components["weights"] for name, one in found.items()}


def _run_of(case: dict[str, Any]) -> Run:
    return Run(
        "test",
        "",
        model=Model(architecture=from_config(case["config"]), weights_dtype="bfloat16"),
        method=Method("full", drops_language_head=True),
        precision=Precision("bfloat16", False, "bfloat16", False),
        batch=Batch(case["B"], 1),
        sequence=Lengths(case["S"]),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full" if case["checkpointing"] else "none"),
        loss=Loss("plain", upcast_logits=False),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )


def simulated_texts(texts: int) -> tuple[dict[str, int], int]:
    """Phases of a simulated step of sentence-transformers over BERT with mean pooling, where a loss compares `texts`
    texts of a sample, and the peak of the estimate; bytes beside the weights."""
    kind, config = ENCODERS[0]
    case = {"config_class": kind, "config": config, "task": "", "checkpointing": False, "B": 4, "S": 512}

    def step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
        (model,) = models
        model.train()
        tracker.begin("forward")
        vectors = [_pooled(model, ids) for _ in range(texts)]
        loss = torch.nn.functional.mse_loss(torch.cosine_similarity(vectors[0], vectors[-1]), vectors[0][:, 0])
        tracker.begin("backward")
        loss.backward()

    run = _run_of(case)
    found = estimate(run._replace(method=run.method._replace(texts_per_sample=texts))).phases
    peaks = [one.allocated_bytes - one.components["weights"] for one in found if one.name in ("forward", "backward")]
    return fake_step.phases(case, step, _models), max(peaks)


def _pooled(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """sentence-transformers 5.7 sentence_transformer/modules/pooling.py, mean over the tokens of a text."""
    mask = torch.ones_like(ids)
    tokens = model(input_ids=ids, attention_mask=mask)[0]
    expanded = mask.unsqueeze(-1).expand(tokens.size()).to(tokens.dtype)
    mean: torch.Tensor = (tokens * expanded).sum(1) / torch.clamp(expanded.sum(1), min=1e-9)
    return mean


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: case["task"])


def _title(case: dict[str, Any]) -> str:
    return f"{case['config_class']:16} {case['task']:22} {'recomputed' if case['checkpointing'] else 'kept':10}"


if __name__ == "__main__":
    raise SystemExit(main())
