"""Trainers of sentence-transformers: which encoder, how many texts of a sample, and what is not a run of that kind."""

from __future__ import annotations

from pathlib import Path

import pytest

import memlint
from memlint.run import UNKNOWN

SCRIPT = """\
from datasets import load_dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses, models
from sentence_transformers import SentenceTransformerTrainingArguments

model = SentenceTransformer({model})
data = load_dataset("sentence-transformers/all-nli", "{data}", split="train")
args = SentenceTransformerTrainingArguments("out", per_device_train_batch_size=16, fp16=True)
trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss={loss})
trainer.train()
"""


def run_of(loss: str, model: str = '"bert-base-uncased"', data: str = "pair") -> memlint.api.results.RunEstimate:
    text = SCRIPT.format(loss=loss, model=model, data=data)
    return memlint.estimate(text, path="train.py", gpu="T4")


@pytest.mark.parametrize(
    ("loss", "data", "texts"),
    [
        ("losses.CoSENTLoss(model)", "pair-score", 2),
        ("losses.TripletLoss(model=model)", "triplet", 3),
        ("losses.BatchAllTripletLoss(model)", "pair", 1),
        ("losses.MultipleNegativesRankingLoss(model)", "pair", 2),
        ("losses.MultipleNegativesRankingLoss(model)", "triplet", 3),
        ("losses.MultipleNegativesRankingLoss(model)", "hard", UNKNOWN),
        ("losses.MatryoshkaLoss(model, losses.CoSENTLoss(model), [64])", "pair", 2),
    ],
)
def test_a_loss_keeps_the_graphs_of_all_texts_of_a_sample(loss: str, data: str, texts: object) -> None:
    found = run_of(loss, data=data)
    assert (found.run.method.texts_per_sample, found.run.sequence.length) == (texts, 512)
    assert found.run.method.drops_language_head and (found.verdict != "unknown") == (texts is not UNKNOWN)


@pytest.mark.parametrize(
    ("loss", "risk"),
    [("losses.MultipleNegativesRankingLoss(model)", True), ("losses.CosineSimilarityLoss(model)", False)],
)
def test_fewer_samples_at_once_are_another_loss_for_those_that_compare_them(loss: str, risk: bool) -> None:
    text = SCRIPT.format(loss=loss, model='"bert-base-uncased"', data="pair").replace("size=16", "size=1024")
    found = memlint.plan(text, path="train.py", gpu="RTX4090", gpus=1).runs[0]
    smaller = next(plan for plan in found["plans"] if "micro batch" in plan["title"])
    assert (smaller["quality"] != "none", "compares each sample" in smaller["note"]) == (risk, risk)
    assert found["checklist"][0]["title"].startswith("micro batch") != risk


def test_triplets_need_more_than_pairs() -> None:
    pairs, triplets = run_of("losses.CoSENTLoss(model)"), run_of("losses.TripletLoss(model)")
    assert (pairs.device_bytes or 0) < (triplets.device_bytes or 0)


@pytest.mark.parametrize(
    ("model", "length"),
    [
        ('"bert-base-uncased", model_kwargs={"torch_dtype": "bfloat16"}', 512),
        ('modules=[models.Transformer("bert-base-uncased", max_seq_length=128), models.Pooling(768)]', 128),
    ],
)
def test_the_encoder_of_a_model(model: str, length: int) -> None:
    run = run_of("losses.CoSENTLoss(model)", model).run
    assert run.model.architecture.hidden_size == 768 and run.sequence.length == length


@pytest.mark.parametrize("loss", ["losses.CachedMultipleNegativesRankingLoss(model)", "Loss(model)", "None"])
def test_other_losses_are_bounded_by_the_model_state(loss: str) -> None:
    found = run_of(loss)
    assert found.verdict == "unknown" and found.run.stack.unmodelled.startswith("trains embeddings")


def test_modules_of_other_kinds_are_no_encoder() -> None:
    found = run_of("losses.CoSENTLoss(model)", 'modules=[Transformer("bert-base-uncased"), CNN(768), Pooling(768)]')
    assert found.run.model.architecture is UNKNOWN


def test_a_reranker_reads_a_pair_in_one_sequence() -> None:
    text = (
        "from sentence_transformers import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments\n"
        "from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss\n"
        "model = CrossEncoder('bert-base-uncased', num_labels=1, max_length=256)\n"
        "args = CrossEncoderTrainingArguments('out', per_device_train_batch_size=64, bf16=True)\n"
        "CrossEncoderTrainer(model=model, args=args, loss=BinaryCrossEntropyLoss(model)).train()\n"
    )
    found = memlint.estimate(text, path="train.py", gpu="A100-80GB")
    assert (found.run.method.texts_per_sample, found.run.sequence.length, found.verdict) == (1, 256, "fits")
    assert found.run.checkpointing.mode == "none"  # transformers' arguments, not those of TRL


def test_pairs_beside_a_simulated_step() -> None:
    """BERT with mean pooling: the graphs of both texts live. Measured: 2.2 % above the simulated peak."""
    from benchmarks.referee.classifiers import simulated_texts

    real, ours = simulated_texts(2)
    assert max(real.values()) < ours < 1.03 * max(real.values())


def test_texts_are_not_said_to_be_as_long_as_the_model_allows() -> None:
    """sentence-transformers' nli/training_nli_v2.py trains sentences of a dozen words with such a batch."""
    many = SCRIPT.replace("batch_size=16", "batch_size=256")
    text = many.format(loss="losses.CoSENTLoss(model)", model='"bert-base-uncased"', data="pair")
    assert memlint.estimate(text, path="train.py", gpu="T4").verdict == "unknown"
    assert memlint.estimate(text, path="train.py", gpu="H200").verdict == "fits"


def test_a_command_that_starts_the_script_gives_its_run(tmp_path: Path) -> None:
    """The texts of a sample and their missing length are facts of the program, whoever starts it."""
    text = SCRIPT.format(loss="losses.TripletLoss(model)", model='"bert-base-uncased"', data="triplet")
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "train.sh").write_text("torchrun --nproc_per_node 2 train.py\n")
    by_command = memlint.estimate(str(tmp_path / "train.sh"), gpu="T4")
    by_script = memlint.estimate(text, path="train.py", gpu="T4", gpus=2)
    assert by_command.run.method.texts_per_sample == 3
    assert (by_command.verdict, by_command.device_bytes) == (by_script.verdict, by_script.device_bytes)
