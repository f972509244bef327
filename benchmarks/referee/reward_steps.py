"""Steps of reward models and of KTO as frameworks' own files say them, beside fake tensors.

    python benchmarks/referee/reward_steps.py            each case: forward and backward
    python benchmarks/referee/reward_steps.py --write    the same, written to benchmarks/data/reward_steps.jsonl

Each case is a file of a framework for a small model, read as any file is. The step is the framework's own code, written
anew around transformers' models: trl 1.16 trainer/reward_trainer.py (compute_loss) and trainer/kto_trainer.py
(_compute_loss), LLaMA-Factory 0.9.5 train/rm/trainer.py (compute_loss) and train/kto/trainer.py (concatenated_forward),
trl 0.24 models/modeling_value_head.py. What is compared is what a phase has beside weights and optimizer states.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.beside as beside
import benchmarks.referee.fake_step as fake_step
import memlint.simulation.attention as attention_functions
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.losses as losses
import memlint.simulation.precision as precision
from benchmarks.referee.engine_phases import MODEL, beside_the_state, estimate_of
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "reward_steps.jsonl"
SIZES = ((2, 512), (4, 1024))  # sequences of a step, and their tokens
FUSED_TOKENS = 4096  # trl 1.16 trainer/utils.py, tokens of a tile of the fused head


def trl_file(length: int) -> dict[str, Any]:
    return {"model_name_or_path": MODEL, "dtype": "bfloat16", "bf16": True, "max_length": length} | {
        "attn_implementation": "flash_attention_2",
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "optim": "sgd",
        "output_dir": "o",
        "dataset_name": "d",
    }


def trl_reward(rows: int, length: int) -> dict[str, Any]:
    """A micro-batch counts pairs."""
    return {**trl_file(length), "center_rewards_coefficient": 0.01, "per_device_train_batch_size": rows // 2}


def trl_kto(rows: int, length: int) -> dict[str, Any]:
    return {**trl_file(length), "desirable_weight": 1.0, "per_device_train_batch_size": rows}


def llamafactory(stage: str, batch: int, length: int) -> dict[str, Any]:
    return {"model_name_or_path": MODEL, "stage": stage, "do_train": True, "finetuning_type": "full"} | {
        "pure_bf16": True,
        "per_device_train_batch_size": batch,
        "cutoff_len": length,
        "flash_attn": "fa2",
        "template": "default",
        "dataset": "d",
        "output_dir": "o",
        "optim": "sgd",
    }


def llamafactory_reward(rows: int, length: int) -> dict[str, Any]:
    """A micro-batch counts pairs."""
    return llamafactory("rm", rows // 2, length)


def llamafactory_kto(rows: int, length: int) -> dict[str, Any]:
    return llamafactory("kto", rows, length)


def _prepared(model: Any, tracker: Tracker, reentrant: bool) -> None:
    checkpoints.enable(model, checkpoints.Kind(reentrant, False, False), tracker)
    model.train()


def _trl_reward_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    (model,) = models
    _prepared(model, tracker, reentrant=False)
    tracker.begin("forward")
    with precision.autocast(torch.bfloat16):
        outputs = model(input_ids=ids, use_cache=False)
    chosen, rejected = torch.chunk(outputs.logits.float().squeeze(-1), chunks=2)
    loss = -torch.nn.functional.logsigmoid(chosen - rejected).mean()
    del outputs
    tracker.begin("backward")
    loss.backward()


def _trl_kto_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    """The policy on mismatched answers without a graph, then on its own; the reference on both."""
    policy, reference = models
    for model in models:
        losses.fuse_head(model, FUSED_TOKENS)
    _prepared(policy, tracker, reentrant=False)
    reference.eval()

    def score(model: Any) -> torch.Tensor:
        with precision.autocast(torch.bfloat16):
            found: torch.Tensor = model(input_ids=ids, labels=ids, use_cache=False).loss
        return found

    tracker.begin("forward")
    with torch.no_grad():
        mismatched = score(policy)
    mine = score(policy)
    with torch.no_grad():
        theirs = score(reference) + score(reference)
    loss = 1 - torch.sigmoid(mine - theirs - mismatched)
    tracker.begin("backward")
    loss.backward()


def _llamafactory_reward_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    """trl's model with a value head returns fp32 logits, which nothing reads, and all hidden states are asked for."""
    (model,) = models
    _prepared(model, tracker, reentrant=True)
    head = model.get_output_embeddings().weight[:1]
    tracker.begin("forward")
    outputs = model(input_ids=ids, use_cache=False, output_hidden_states=True)
    values = (outputs.hidden_states[-1] @ head.t()).squeeze(-1)
    logits = outputs.logits.float()
    del outputs, logits
    chosen, rejected = torch.split(values[:, -1], ids.shape[0] // 2)
    loss = -torch.nn.functional.logsigmoid(chosen.float() - rejected.float()).mean()
    del values
    tracker.begin("backward")
    loss.backward()


def _llamafactory_kto_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    """Logits of the chosen and of the rejected samples are copies, held until the loss is made."""
    policy, reference = models
    _prepared(policy, tracker, reentrant=True)
    reference.eval()
    half = torch.arange(ids.shape[0] // 2)

    def score(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        logits = model(input_ids=ids, use_cache=False).logits.to(torch.float32)
        shifted, labels = logits[:, :-1, :], ids[:, 1:].clone()
        found = torch.gather(shifted.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
        return logits, found.sum(-1)

    def concatenated(model: Any) -> tuple[torch.Tensor, Any, torch.Tensor]:
        logits, mine = score(model)
        with torch.no_grad():
            mismatched = score(model)[1]
        return mine, (logits[half], logits[half]), mismatched

    tracker.begin("forward")
    mine, held, mismatched = concatenated(policy)
    with torch.no_grad():
        theirs, _, other = concatenated(reference)
    loss = (1 - torch.sigmoid(mine - theirs - (mismatched - other).mean())).mean()
    tracker.begin("after")
    del held, _
    tracker.begin("backward")
    loss.backward()


def _classifier(case: dict[str, Any]) -> fake_step.Models:
    import transformers

    settings: Any = getattr(transformers, case["config_class"])(**case["config"], use_cache=False, num_labels=1)
    settings.pad_token_id = 1
    settings._attn_implementation = attention_functions.implementation("flash_attention_2")
    settings.dtype = torch.bfloat16
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            return (transformers.AutoModelForSequenceClassification.from_config(settings),)
    finally:
        torch.set_default_dtype(default)


def _pair(case: dict[str, Any]) -> fake_step.Models:
    return fake_step.model_of(case), fake_step.model_of(case)


class Trained(NamedTuple):
    """A framework's training: the file that says it, its step, and the models of the step."""

    file: Callable[[int, int], dict[str, Any]]
    step: fake_step.Step
    models: Callable[[dict[str, Any]], fake_step.Models]


TRAINERS = {
    "TRL reward": Trained(trl_reward, _trl_reward_step, _classifier),
    "TRL KTO": Trained(trl_kto, _trl_kto_step, _pair),
    "LLaMA-Factory RM": Trained(llamafactory_reward, _llamafactory_reward_step, fake_step.alone),
    "LLaMA-Factory KTO": Trained(llamafactory_kto, _llamafactory_kto_step, _pair),
}


def cases() -> Iterator[dict[str, Any]]:
    for trainer, (kind, model), (rows, length) in itertools.product(TRAINERS, MODELS, SIZES):
        config = {**model, **SHAPE, **LAYERS, "torch_dtype": "bfloat16"}
        yield {"trainer": trainer, "config_class": kind, "config": config, "B": rows, "S": length}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""
    trained = TRAINERS[case["trainer"]]
    found = fake_step.phases(case, trained.step, trained.models)
    return {name: size for name, size in found.items() if name != "after"}


def predicted(case: dict[str, Any]) -> dict[str, int]:
    file = TRAINERS[case["trainer"]].file(case["B"], case["S"])
    return beside_the_state(estimate_of(file, case["config"]))


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: str(case["trainer"]))


def _title(case: dict[str, Any]) -> str:
    return f"{case['trainer']:18} {case['config_class']:14} {case['B']}x{case['S']:<5}"


if __name__ == "__main__":
    raise SystemExit(main())
