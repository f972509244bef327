"""Trainers of sentence-transformers: what their losses keep of the texts of a sample.

Read in sentence-transformers 5.7 (sentence_transformer/losses, cross_encoder/losses and their `Inputs` tables).
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint.source.python.values import Known, Made, Value

OF_EMBEDDINGS = frozenset(
    {"SentenceTransformerTrainer", "CrossEncoderTrainer", "SparseEncoderTrainer", "MultiVectorEncoderTrainer"}
)
# Texts of a sample, each of which is a forward whose graph lives until the loss. 0: two and more, as the data say.
_TEXTS: Mapping[str, int] = {
    **dict.fromkeys(("CosineSimilarityLoss", "CoSENTLoss", "AnglELoss", "SoftmaxLoss"), 2),
    **dict.fromkeys(("ContrastiveLoss", "OnlineContrastiveLoss"), 2),
    "TripletLoss": 3,
    **dict.fromkeys(("BatchAllTripletLoss", "BatchHardTripletLoss", "BatchSemiHardTripletLoss"), 1),
    "BatchHardSoftMarginTripletLoss": 1,
    **dict.fromkeys(("MultipleNegativesRankingLoss", "MultipleNegativesSymmetricRankingLoss"), 0),
}
# Those whose loss of a sample depends on the others of its batch: negatives for each other, or pairs in an order.
_COMPARE_SAMPLES = frozenset(
    {
        *("MultipleNegativesRankingLoss", "MultipleNegativesSymmetricRankingLoss", "CoSENTLoss", "AnglELoss"),
        *("BatchAllTripletLoss", "BatchHardTripletLoss", "BatchSemiHardTripletLoss"),
        *("BatchHardSoftMarginTripletLoss", "OnlineContrastiveLoss"),
    }
)
# A cross-encoder reads both texts of a pair in one sequence, and its classifier scores it.
_PAIRS_IN_ONE = frozenset({"BinaryCrossEntropyLoss", "CrossEntropyLoss", "MSELoss"})
# Losses around another one, which is called with embeddings that are there already.
_AROUND = frozenset({"MatryoshkaLoss"})


def texts_per_sample(trainer: Made) -> tuple[int, str]:
    """Texts of a sample, and 0 with the reason where the data decide."""
    loss = _loss_of(trainer)
    if loss is None or other_than_texts(trainer) or trainer.last == "CrossEncoderTrainer":
        return 0, ""
    count = _TEXTS[loss.last] or _columns(trainer.arguments.get("train_dataset"))
    return count, "" if count else f"`{loss.last}` takes two texts of a sample or more, and the data decide"


def loss_over_batch(trainer: Made) -> str:
    """The name of a loss that compares each sample with the others of its batch; "" for any other."""
    loss = _loss_of(trainer)
    return loss.last if loss is not None and loss.last in _COMPARE_SAMPLES else ""


def other_than_texts(trainer: Made) -> str:
    """What a trainer does that is not the forward of as many texts; "" where it is no more than that."""
    loss = _loss_of(trainer)
    name = loss.last if loss is not None else ""
    known = {"SentenceTransformerTrainer": _TEXTS.keys(), "CrossEncoderTrainer": _PAIRS_IN_ONE}
    if name in known.get(trainer.last, ()):
        return ""
    of = f" with `{name}`" if name else ""
    return f"trains {_WHAT.get(trainer.last, 'embeddings')}{of}"


_WHAT = {"CrossEncoderTrainer": "a reranker", "SparseEncoderTrainer": "embeddings over the vocabulary"}


def _loss_of(trainer: Made) -> Made | None:
    given: Value | None = trainer.arguments.get("loss")
    while isinstance(given, Made) and given.last in _AROUND:
        given = given.arguments.get("loss") or next(iter(given.positional[1:]), None)
    return given if isinstance(given, Made) else None


def _columns(dataset: Value | None) -> int:
    """Texts of a sample of the library's own data sets, whose configurations say it: `load_dataset(
    "sentence-transformers/all-nli", "triplet")`; 0 for others."""
    while isinstance(dataset, Made) and dataset.last != "load_dataset":
        dataset = dataset.base
    if not isinstance(dataset, Made):
        return 0
    name, kind = (*dataset.positional, *(dataset.arguments.get(one) for one in ("path", "name")), None, None)[:2]
    if not (isinstance(name, Known) and isinstance(kind, Known)):
        return 0
    if not str(name.value).startswith("sentence-transformers/"):
        return 0
    return {"pair": 2, "triplet": 3}.get(str(kind.value).partition("-")[0], 0)
