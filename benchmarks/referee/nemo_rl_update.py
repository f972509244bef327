"""NeMo-RL's update under its DTensor engine, beside fake tensors: the real `fully_shard` and `checkpoint_wrapper`.

    python benchmarks/referee/nemo_rl_update.py            12 cases
    python benchmarks/referee/nemo_rl_update.py --write    the same, written to benchmarks/data/nemo_rl_update.jsonl

As NeMo-RL 0.7 computes it: fp32 shards, layers gathered in bf16 whose outputs are cast to fp32
(nemo_rl/models/dtensor/parallelize.py, MixedPrecisionPolicy), norms, attention and MLP checkpointed one by one (the
first worker) or whole layers (NeMo Automodel since 0.6), and a log-softmax of fp32 logits
(nemo_rl/distributed/model_utils.py, get_next_token_logprobs_from_logits).
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import benchmarks.referee.beside as beside
import memlint.simulation.attention as attention_functions
import memlint.simulation.build as build
import memlint.simulation.kernels as kernels
import memlint.simulation.precision as precision
import memlint.simulation.replay as replay
import memlint.simulation.sharding as sharding
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Fsdp,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Rollout,
    Run,
    Sequence,
)
from memlint.simulation.freezing import decoder_layers
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "nemo_rl_update.jsonl"
SIZES = ((1, 1024), (4, 512))
RANKS = 4
RECOMPUTATIONS = ("none", "parts", "layers")


def cases() -> Iterator[dict[str, Any]]:
    for (kind, model), (rows, length), recomputes in itertools.product(MODELS, SIZES, RECOMPUTATIONS):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": rows, "S": length, "recomputes": recomputes}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes of each phase on one of the ranks, beside its shards."""
    attention_functions.register()
    attention_functions.FlashCore.temporaries = True
    tracker = Tracker(kernels.temporaries)
    setting = sharding.Sharding(RANKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        implementation = attention_functions.implementation("flash_attention_2")
        model = build.model_on_meta(case["config_class"], case["config"], implementation, torch.float32)
        with sharding.group(setting, tracker) as mesh, FakeTensorMode(), tracker, precision.CudaOperators():
            tracker.begin("base")
            build.to_fake(model)
            _shard(model, mesh, case["recomputes"])
            ids = torch.zeros((case["B"], case["S"]), dtype=torch.int64)
            base = tracker.current - 8 * ids.numel()
            _step(model, ids, tracker)
    peaks = replay.phase_peaks(tracker)
    return {name: peaks[name][1] - base for name in ("forward", "backward")}


def _shard(model: Any, mesh: Any, recomputes: str) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    layers = decoder_layers(model)
    if recomputes == "layers":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    for layer in layers:
        for name in ("mlp", "self_attn", "input_layernorm", "post_attention_layernorm"):
            if recomputes == "parts":
                setattr(layer, name, checkpoint_wrapper(getattr(layer, name)))
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def _step(model: Any, ids: torch.Tensor, tracker: Tracker) -> None:
    model.train()
    tracker.begin("forward")
    with precision.autocast(torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits
        found = torch.nn.functional.log_softmax(logits[:, :-1].to(torch.float32), dim=-1)
        loss = found.gather(dim=-1, index=ids[:, 1:].unsqueeze(-1)).squeeze(-1).sum()
        del found, logits
    tracker.begin("backward")
    loss.backward()


def predicted(case: dict[str, Any]) -> dict[str, int]:
    by_parts = case["recomputes"] == "parts"
    fsdp = Fsdp(
        2,
        param_dtype="bfloat16",
        reduce_dtype="float32",
        output_dtype="float32",
        upcasts_trainable=False,
        reduces_each_backward=True,
        root_holds_ends=True,
    )
    mode = "none" if case["recomputes"] == "none" else "full"
    run = Run(
        "test",
        "",
        model=Model(architecture=from_config(case["config"]), weights_dtype="float32"),
        method=Method("full", stage="grpo"),
        precision=Precision("bfloat16", True, "float32", False, outputs_to_fp32=False, upcast_lmhead_output=True),
        batch=Batch(case["B"], 1),
        sequence=Sequence(case["S"]),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing(mode, reentrant=not by_parts, by_parts=by_parts),
        loss=Loss("plain", upcast_logits=False, prompt_logits=True),
        rollout=Rollout("vllm"),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(RANKS, RANKS, RANKS, engine="fsdp", fsdp=fsdp),
    )
    phases = {one.name: one for one in estimate(run).phases}
    shards = phases["load"].components["weights"]
    return {name: phases[name].allocated_bytes - shards for name in ("forward", "backward")}


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: str(case["recomputes"]))


def _title(case: dict[str, Any]) -> str:
    return f"{case['config_class']:14} {case['B']}x{case['S']:<5} {case['recomputes']:7}"


if __name__ == "__main__":
    raise SystemExit(main())
