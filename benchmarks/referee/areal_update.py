"""AReaL's update under its FSDP engine, beside fake tensors: the real `fully_shard` as AReaL calls it.

    python benchmarks/referee/areal_update.py            24 cases
    python benchmarks/referee/areal_update.py --write    the same, written to benchmarks/data/areal_update.jsonl

As AReaL computes it (1.0.4 and 2.0.0 areal/engine/fsdp_engine.py and fsdp_utils): layers, an untied embedding and the
model are sharded in turn, `reshard_after_forward=True` for all, with shards in bf16 (`dtype`, until 1.0.4) or in fp32
(`optimizer_dtype`, 2.0.0), gathered in bf16 and reduced in fp32 after each backward; no autocast; log-probabilities and
entropy of 1024 tokens at a time (areal/utils/functional/vocab_parallel.py). torch.compile's kernels of these are a
stand-in that keeps and allocates what they do. The caller holds outputs and logits until the backward has ended.
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

DATA = Path(__file__).resolve().parents[1] / "data" / "areal_update.jsonl"
SIZES = (2048, 8192)
RANKS = 4
CHUNK = 1024


def cases() -> Iterator[dict[str, Any]]:
    """Every model tied and not, with shards of either dtype; half of the cases checkpoint layers."""
    choices = itertools.product(MODELS[1:3], SIZES, (False, True), ("bfloat16", "float32"))
    for index, ((kind, model), length, tied, dtype) in enumerate(choices):
        config = {**model, **SHAPE, **LAYERS, "tie_word_embeddings": tied}
        for recomputes in (True, False) if index % 2 else (True,):
            yield {
                "config_class": kind,
                "config": config,
                "B": 1,
                "S": length,
                "dtype": dtype,
                "recomputes": recomputes,
            }


class _Compiled(torch.autograd.Function):  # type: ignore[misc]
    """`_gather_logprobs_entropy` as torch.compile makes it of 2.13: it keeps its chunk, and has one fp32 tensor of a
    chunk in the forward (the log-softmax that labels are looked up in) and one in the backward (zeros that their
    gradients are scattered into)."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        scores = torch.empty_like(logits, dtype=torch.float32)
        return scores[:, 0].clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (logits,) = ctx.saved_tensors
        scattered = torch.empty_like(logits, dtype=torch.float32)
        found = torch.empty_like(logits)
        del scattered
        return found


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes of each phase on one of the ranks, beside its shards."""
    attention_functions.register()
    attention_functions.FlashCore.temporaries = True
    tracker = Tracker(kernels.temporaries)
    dtype = build.DTYPES[case["dtype"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        implementation = attention_functions.implementation("flash_attention_2")
        model = build.model_on_meta(case["config_class"], case["config"], implementation, dtype)
        setting = sharding.Sharding(RANKS)
        with sharding.group(setting, tracker) as mesh, FakeTensorMode(), tracker, precision.CudaOperators():
            tracker.begin("base")
            build.to_fake(model)
            _shard(model, mesh, case)
            ids = torch.zeros((1, case["S"]), dtype=torch.int64)
            base = tracker.current - 8 * ids.numel()
            _step(model, ids, tracker)
    peaks = replay.phase_peaks(tracker)
    return {name: peaks[name][1] - base for name in ("forward", "backward")}


def _shard(model: Any, mesh: Any, case: dict[str, Any]) -> None:
    """1.0.4 areal/engine/fsdp_utils/__init__.py, apply_fsdp2, and parallel.py, parallelize_model."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    if case["recomputes"]:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=True)
    embeddings = [] if case["config"]["tie_word_embeddings"] else [model.get_input_embeddings()]
    for module in (*embeddings, *decoder_layers(model), model):
        fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=True)


def _step(model: Any, ids: torch.Tensor, tracker: Tracker) -> None:
    """areal/engine/fsdp_engine.py, forward_backward_batch and _compute_logprobs_and_loss."""
    model.train()
    tracker.begin("forward")
    outputs = model(input_ids=ids, use_cache=False)
    logits = outputs.logits.squeeze(0)
    found = [_Compiled.apply(logits[start : start + CHUNK]) for start in range(0, len(logits), CHUNK)]
    loss = torch.cat(found).sum()
    del found
    tracker.begin("backward")
    loss.backward()
    del outputs, logits


def predicted(case: dict[str, Any]) -> dict[str, int]:
    fsdp = Fsdp(
        2,
        param_dtype="bfloat16",
        reduce_dtype="float32",
        upcasts_trainable=False,
        reduces_each_backward=True,
        root_holds_ends=True,
        embedding_apart=True,
        root_reshards=True,
    )
    run = Run(
        "test",
        "",
        model=Model(architecture=from_config(case["config"]), weights_dtype=case["dtype"]),
        method=Method("full", stage="grpo"),
        precision=Precision("bfloat16", False, case["dtype"], False, outputs_to_fp32=False),
        batch=Batch(1, 1),
        sequence=Sequence(case["S"]),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full" if case["recomputes"] else "none", reentrant=False),
        loss=Loss(
            "plain",
            chunk_tokens=CHUNK,
            upcast_logits=False,
            scores_in_fp32=False,
            keeps_logits=True,
            prompt_logits=True,
            selection="compiled_chunks",
        ),
        rollout=Rollout("vllm"),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(RANKS, RANKS, RANKS, engine="fsdp", fsdp=fsdp),
    )
    phases = {one.name: one for one in estimate(run).phases}
    shards = phases["load"].components["weights"]
    return {name: phases[name].allocated_bytes - shards for name in ("forward", "backward")}


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: str(case["dtype"]))


def _title(case: dict[str, Any]) -> str:
    tied = "tied" if case["config"]["tie_word_embeddings"] else "untied"
    recomputes = "layers" if case["recomputes"] else "none"
    return f"{case['config_class']:12} {case['S']:<5} {tied:6} {case['dtype']:8} {recomputes:6}"


if __name__ == "__main__":
    raise SystemExit(main())
