"""Phases of reinforcement learning as frameworks' own files say them, beside steps on fake tensors.

    python benchmarks/referee/engine_phases.py            each case: forwards before the update, the update's two halves
    python benchmarks/referee/engine_phases.py --write    the same, written to benchmarks/data/engine_phases.jsonl

Each case is a file of a framework for a small model, read as any file is. The step is the framework's own code,
written anew: ms-swift 4.6.0 rlhf_trainers/grpo_trainer.py (_get_logps_via_local_forward), trl 1.16
experimental/online_dpo/online_dpo_trainer.py (_forward, training_step), trl 1.13 experimental/xpo and
experimental/nash_md (_compute_logprobs, GeometricMixtureWrapper), OpenRLHF 0.11.2 models/actor.py and
models/utils.py, LLaMA-Factory 0.9.5 train/dpo/trainer.py (concatenated_forward), verl 0.9.1
workers/engine/fsdp/transformer_impl.py. What is compared is what a phase has beside weights, optimizer states and
gathered parameters; of OpenRLHF and verl, whose engines move gradients, the forwards alone.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.beside as beside
import benchmarks.referee.fake_step as fake_step
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.precision as precision
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.hardware import find
from memlint.lint.analyse_file import uniform_analyser
from memlint.memory.values import Estimate, Phase
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Origin
from memlint.simulation.losses import InPlaceCrossEntropy
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "engine_phases.jsonl"
SIZES = ((2, 512), (4, 1024))
MODEL = "tiny"
STATED = Origin("setting", detail="the case")
_BESIDE = ("weights", "optimizer_states", "communication")
Step = Callable[[fake_step.Models, torch.Tensor, Tracker], None]


def swift(rows: int, length: int) -> dict[str, Any]:
    half = length // 2
    return {"rlhf_type": "grpo", "model": MODEL, "tuner_type": "full", "torch_dtype": "bfloat16"} | {
        "attn_impl": "flash_attn",
        "per_device_train_batch_size": rows,
        "num_generations": rows,
        "max_length": half,
        "max_completion_length": half,
        "beta": 0.04,
        "dataset": "d",
        "optim": "sgd",
    }


def online_dpo(rows: int, length: int) -> dict[str, Any]:
    """A micro-batch counts prompts, and each has two completions."""
    return {"model_name_or_path": MODEL, "judge": "pair_rm", "dtype": "bfloat16", "bf16": True} | {
        "attn_implementation": "flash_attention_2",
        "per_device_train_batch_size": rows // 2,
        "max_length": length,
        "max_new_tokens": length // 2,
        "gradient_checkpointing": True,
        "optim": "sgd",
        "output_dir": "o",
    }


def beside_reference(rows: int, length: int) -> dict[str, Any]:
    """Prompts that are three times as long as what the model and its reference write behind them."""
    new = length // 4
    return {"model_name_or_path": MODEL, "dtype": "bfloat16", "bf16": True, "gradient_checkpointing": True} | {
        "attn_implementation": "flash_attention_2",
        "per_device_train_batch_size": rows,
        "max_prompt_length": length - new,
        "max_new_tokens": new,
        "optim": "sgd",
        "output_dir": "o",
    }


def xpo(rows: int, length: int) -> dict[str, Any]:
    return {**beside_reference(rows, length), "task": "xpo", "alpha": [1e-5]}


def nash_md(rows: int, length: int) -> dict[str, Any]:
    return {**beside_reference(rows, length), "mixture_coef": 0.5}


def openrlhf(rows: int, length: int) -> dict[str, Any]:
    return {"pretrain": MODEL, "actor_num_gpus_per_node": 1, "ref_num_gpus_per_node": 1, "bf16": True} | {
        "colocate_all_models": True,
        "vllm_num_engines": 1,
        "vllm_enable_sleep": True,
        "flash_attn": True,
        "micro_train_batch_size": rows,
        "micro_rollout_batch_size": rows,
        "train_batch_size": rows,
        "prompt_max_len": length // 2,
        "generate_max_len": length // 2,
        "zero_stage": 2,
        "advantage_estimator": "group_norm",
        "gradient_checkpointing": True,
    }


def llamafactory(rows: int, length: int) -> dict[str, Any]:
    """A micro-batch counts pairs."""
    return {"model_name_or_path": MODEL, "stage": "dpo", "do_train": True, "finetuning_type": "full"} | {
        "pure_bf16": True,
        "per_device_train_batch_size": rows // 2,
        "cutoff_len": length,
        "flash_attn": "fa2",
        "template": "default",
        "dataset": "d",
        "output_dir": "o",
        "optim": "sgd",
    }


def verl(rows: int, length: int) -> dict[str, Any]:
    half = length // 2
    return {
        "actor_rollout_ref": {
            "model": {"path": MODEL, "use_remove_padding": True},
            "actor": {
                "ppo_micro_batch_size_per_gpu": rows,
                "ppo_mini_batch_size": rows,
                "use_kl_loss": True,
                "entropy_coeff": 0,
                "fsdp_config": {"model_dtype": "bf16"},
            },
            "rollout": {"name": "vllm", "gpu_memory_utilization": 0.3, "log_prob_micro_batch_size_per_gpu": rows},
            "ref": {"log_prob_micro_batch_size_per_gpu": rows},
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {"n_gpus_per_node": 1, "nnodes": 1},
        "data": {"max_prompt_length": half, "max_response_length": half, "train_batch_size": rows},
    }


def _prepared(model: Any, tracker: Tracker) -> None:
    checkpoints.enable(model, checkpoints.Kind(False, False, False), tracker)
    model.train()


def _selected(logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """trl's `selective_log_softmax` of fp32 logits, row by row (trl 1.16 trainer/utils.py:583)."""
    chosen = torch.gather(logits, dim=-1, index=index.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.stack([torch.logsumexp(row, dim=-1) for row in logits])


def _swift_logps(model: Any, ids: torch.Tensor) -> torch.Tensor:
    keep = ids.shape[1] // 2
    with precision.autocast(torch.bfloat16):
        half = model(input_ids=ids, use_cache=False, logits_to_keep=keep + 1).logits
    logits = half.float()
    del half
    logits = logits[:, -(keep + 1) : -1, :]
    logits.div_(0.9)
    return _selected(logits, ids[:, -keep:])


def _swift_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    (model,) = models
    model.eval()
    tracker.begin("log_probabilities")
    with torch.no_grad():
        _swift_logps(model, ids)
    _prepared(model, tracker)
    tracker.begin("forward")
    loss = _swift_logps(model, ids).sum()
    tracker.begin("backward")
    loss.backward()


def _online_logps(model: Any, ids: torch.Tensor) -> torch.Tensor:
    prompt = ids.shape[1] // 2
    with precision.autocast(torch.bfloat16):
        half = model(ids, use_cache=False).logits
    logits = half.float()
    del half
    scored = logits[:, prompt - 1 : -1].log_softmax(dim=-1)
    return torch.take_along_dim(scored, ids[:, prompt:].unsqueeze(-1), dim=2).squeeze(-1)


def _online_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    policy, reference = models
    _prepared(policy, tracker)
    reference.eval()
    tracker.begin("forward")
    mine = _online_logps(policy, ids)
    with torch.no_grad():
        theirs = _online_logps(reference, ids)
    loss = (mine - theirs).sum()
    tracker.begin("backward")
    loss.backward()


def _rows_logps(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """The log-probabilities of XPO and Nash-MD (trl 1.13 experimental/xpo/xpo_trainer.py, _compute_logprobs)."""
    prompt = 3 * ids.shape[1] // 4
    return _selected(_converted_logits(model, ids)[:, prompt - 1 : -1], ids[:, prompt:])


def _converted_logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with precision.autocast(torch.bfloat16):
        half: torch.Tensor = model(ids, use_cache=False).logits
    return half.float()


def _xpo_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    """The policy and the reference read the completions of both, each in a forward of its own."""
    policy, reference = models
    _prepared(policy, tracker)
    reference.eval()
    tracker.begin("forward")
    mine = [_rows_logps(policy, ids) for _ in range(2)]
    with torch.no_grad():
        theirs = [_rows_logps(reference, ids) for _ in range(2)]
    loss = (mine[0] - mine[1] + theirs[0] - theirs[1]).sum()
    tracker.begin("backward")
    loss.backward()


def _nash_md_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    """The last token of the mixture's completions, then the update on the policy's own."""
    policy, reference = models
    policy.eval()
    reference.eval()
    tracker.begin("generation")
    with torch.no_grad():
        own, other = _converted_logits(policy, ids), _converted_logits(reference, ids)
        mixture = torch.nn.functional.log_softmax(0.5 * other + 0.5 * own, dim=-1)
    tracker.begin("after")
    del own, other, mixture
    _prepared(policy, tracker)
    tracker.begin("forward")
    mine = _rows_logps(policy, ids)
    with torch.no_grad():
        theirs = _rows_logps(reference, ids)
    loss = (mine - theirs).sum()
    tracker.begin("backward")
    loss.backward()


class _CrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """FlashAttention's cross entropy with `inplace_backward=False`: its gradient is a tensor of its own."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        return torch.empty(logits.shape[0], dtype=torch.float32).sum()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return torch.empty_like(ctx.saved_tensors[0])


def _openrlhf_logps(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, Any]:
    output = model(input_ids=ids, use_cache=False)
    output["logits"] = output["logits"].to(torch.float32)
    return _CrossEntropy.apply(output["logits"].view(-1, output["logits"].shape[-1])), output


def _with_reference(log_probabilities: Callable[[Any, torch.Tensor], Any]) -> Step:
    """A step without a backward: log-probabilities of the policy and of a reference like it, then those that train."""

    def step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
        (model,) = models
        model.eval()
        for name in ("log_probabilities", "reference"):
            tracker.begin(name)
            with torch.no_grad():
                log_probabilities(model, ids)
        _prepared(model, tracker)
        tracker.begin("forward")
        held = log_probabilities(model, ids)
        tracker.begin("after")
        del held

    return step


def _llamafactory_logps(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The log-probabilities, and all fp32 logits, which are held until the loss is made."""
    logits = model(input_ids=ids, use_cache=False).logits.to(torch.float32)
    scored = logits[:, :-1].log_softmax(-1)
    return torch.gather(scored, dim=2, index=ids[:, 1:].unsqueeze(2)).squeeze(2), logits


def _llamafactory_step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    policy, reference = models
    _prepared(policy, tracker)
    reference.eval()
    tracker.begin("forward")
    mine, held = _llamafactory_logps(policy, ids)
    with torch.no_grad():
        theirs = _llamafactory_logps(reference, ids)[0]
    loss = (mine - theirs).sum()
    del held
    tracker.begin("backward")
    loss.backward()


def _verl_logps(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Without padding the rows of a micro-batch are one."""
    with precision.autocast(torch.bfloat16):
        logits = model(input_ids=ids.view(1, -1), use_cache=False).logits.squeeze(0)
        found: torch.Tensor = InPlaceCrossEntropy.apply(logits)
    return found


def _pair(case: dict[str, Any]) -> fake_step.Models:
    return fake_step.model_of(case), fake_step.model_of(case)


ENGINES: dict[str, tuple[Callable[[int, int], dict[str, Any]], Step, Callable[[dict[str, Any]], fake_step.Models]]] = {
    "ms-swift GRPO": (swift, _swift_step, fake_step.alone),
    "TRL Online DPO": (online_dpo, _online_step, _pair),
    "TRL XPO": (xpo, _xpo_step, _pair),
    "TRL Nash-MD": (nash_md, _nash_md_step, _pair),
    "OpenRLHF GRPO": (openrlhf, _with_reference(_openrlhf_logps), fake_step.alone),
    "LLaMA-Factory DPO": (llamafactory, _llamafactory_step, _pair),
    "verl GRPO": (verl, _with_reference(_verl_logps), fake_step.alone),
}


def cases() -> Iterator[dict[str, Any]]:
    for engine, (kind, model), (rows, length) in itertools.product(ENGINES, MODELS, SIZES):
        config = {**model, **SHAPE, **LAYERS, "torch_dtype": "bfloat16"}
        yield {"engine": engine, "config_class": kind, "config": config, "B": rows, "S": length}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""
    _, step, models = ENGINES[case["engine"]]
    found = fake_step.phases(case, step, models)
    return {name: size for name, size in found.items() if name != "after"}


def estimated(case: dict[str, Any]) -> Estimate:
    """The estimate of the case's file, as memlint reads it."""
    return estimate_of(ENGINES[case["engine"]][0](case["B"], case["S"]), case["config"])


def estimate_of(file: dict[str, Any], config: dict[str, Any], **stated: Any) -> Estimate:
    """The estimate of a file that trains the model of `config` on one card; `stated`: other facts of its context."""
    facts = {"gpu": find("H200"), "gpu_origin": STATED, "gpus": 1, "gpus_origin": STATED, "gpus_per_node": 1, **stated}
    workspace = in_memory({"train.yaml": json.dumps(file)}, {MODEL: config})
    analyser = uniform_analyser(Engine(()), facts, cwd="/", workspace=workspace)
    return analyser.analyse("train.yaml", fixes=False).analyses[0].estimates[0]


def predicted(case: dict[str, Any]) -> dict[str, int]:
    return beside_the_state(estimated(case))


def beside_the_state(found: Estimate) -> dict[str, int]:
    """Bytes of each phase beside weights, optimizer states and what is gathered. Forwards before the update count
    parameters that FSDP gathers among their activations, the update's among its weights."""
    phases = {one.name: one for one in found.phases}
    gathered = phases["forward"].components["weights"] - phases["load"].components["weights"]
    sizes = {name: one.allocated_bytes - sum(map(_component(one), _BESIDE)) for name, one in phases.items()}
    return sizes | {name: sizes[name] - gathered for name in _BEFORE if name in sizes and gathered > ROUNDING}


_BEFORE, ROUNDING = ("log_probabilities", "reference"), 1 << 20


def _component(one: Phase) -> Callable[[str], int]:
    return lambda name: one.components.get(name, 0)


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: case["engine"])


def _title(case: dict[str, Any]) -> str:
    return f"{case['engine']:15} {case['config_class']:14} {case['B']}x{case['S']:<5}"


if __name__ == "__main__":
    raise SystemExit(main())
