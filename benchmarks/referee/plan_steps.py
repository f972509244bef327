"""The simulated peak of a run as its files say it: on one GPU, or on one rank of several.

`memlint simulate` steps one GPU, DDP and FSDP2. Beside these: DeepSpeed's engine (sharding/zero_steps.py), sequences
that GPUs share by Ulysses (what a rank holds around the exchange of heads), and verl's update, written anew from verl
0.9.1: workers/engine/fsdp/transformer_impl.py, utils/fsdp_utils.py (apply_fsdp2), utils/torch_functional.py and
utils/experimental/torch_functional.py (FusedLinearForPPO). Tensors are fake; collectives return at once.
"""

from __future__ import annotations

import multiprocessing
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import memlint.simulation.attention as attention
import memlint.simulation.build as build
import memlint.simulation.from_run as from_run
import memlint.simulation.sharding as sharding
import memlint.simulation.stages as stages
import memlint.simulation.step as step
from memlint.run import Run, replace
from memlint.simulation import UnsupportedRun
from memlint.simulation.freezing import decoder_layers
from memlint.simulation.losses import InPlaceCrossEntropy

SECONDS = 1800  # most for one step of DeepSpeed's engine
Config = Mapping[str, Any]


def peak(run: Run, config: Config) -> int:
    """Bytes of live tensors at the peak of forward, backward and optimizer step. Raises UnsupportedRun."""
    if run.parallelism.context_parallel_size > 1:
        raise UnsupportedRun("no simulation of ring attention")
    if run.parallelism.engine == "deepspeed":
        return max(_in_a_process_of_its_own(run, config).values())
    chosen = settings(run)
    with ExitStack() as patches:
        ranks = run.parallelism.sequence_parallel_size
        if ranks > 1:
            patches.enter_context(patch.object(attention, "flash", _exchanging(ranks, attention.flash)))
        if run.method.stage == "grpo":
            patches.enter_context(_verl(run))
            chosen = chosen._replace(stage="verl")
        return step.simulate_settings(*from_run.named_configuration(config), chosen).peak


def settings(run: Run) -> step.StepSettings:
    """The settings of one rank: its part of the tokens. verl joins the sequences of a micro-batch into one."""
    parallelism, rollout = run.parallelism, run.method.stage == "grpo"
    if rollout and not (run.format == "verl" and run.sequence.unpadded):
        raise UnsupportedRun("of reinforcement learning, verl's joined sequences are simulated")
    plain = {"method.stage": "sft", "loss.kind": "plain"} if rollout else {}
    chosen = from_run.settings(replace(run, {**plain, "parallelism.sequence_parallel_size": 1}))
    ranks = parallelism.sequence_parallel_size
    if not rollout:
        return chosen._replace(sequence_length=chosen.sequence_length // ranks)
    tokens = run.batch.max_tokens or chosen.micro_batch_size * chosen.sequence_length
    return chosen._replace(micro_batch_size=1, sequence_length=tokens // ranks)


def _in_a_process_of_its_own(run: Run, config: Config) -> dict[str, int]:
    """DeepSpeed's engine on fake tensors changes classes of PyTorch."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found: dict[str, int] | str = pool.apply_async(_deepspeed, (run, dict(config))).get(SECONDS)
    if isinstance(found, str):
        raise UnsupportedRun(found)
    return found


def _deepspeed(run: Run, config: Config) -> dict[str, int] | str:
    sys.path.insert(0, str(Path(__file__).resolve().parent / "sharding"))
    import zero_steps

    try:
        return zero_steps.simulate(run, config)
    except UnsupportedRun as reason:
        return str(reason)


class _Exchange(torch.autograd.Function):  # type: ignore[misc]
    """An all-to-all of the dimensions `scatter` and `gather`, both ways (deepspeed 0.19.8 sequence/layer.py)."""

    @staticmethod
    def forward(ctx: Any, local: torch.Tensor, ranks: int, scatter: int, gather: int) -> torch.Tensor:
        ctx.back = ranks, gather, scatter
        sent = [part.contiguous() for part in torch.tensor_split(local, ranks, scatter)]
        received = [torch.empty_like(part) for part in sent]
        return torch.cat(received, dim=gather).contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _Exchange.apply(grads[0], *ctx.back), None, None, None


def _exchanging(ranks: int, flash: Callable[..., Any]) -> Callable[..., Any]:
    """Attention over all tokens and a rank's heads; heads of keys are repeated where there are fewer than ranks."""

    def shared(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        times = max(ranks // key.size(2), 1)
        if times > 1:
            key, value = (tensor.repeat_interleave(times, 2) for tensor in (key, value))
        if query.dtype == torch.float32 and torch.is_autocast_enabled("cpu"):
            query, key, value = (tensor.to(torch.get_autocast_dtype("cpu")) for tensor in (query, key, value))
        exchanged = (_Exchange.apply(tensor, ranks, 2, 1).transpose(1, 2) for tensor in (query, key, value))
        out, _ = flash(module, *exchanged, mask, **options)
        return _Exchange.apply(out, ranks, 1, 2), None

    return shared


@contextmanager
def _verl(run: Run) -> Iterator[None]:
    """verl's wrapping and its loss, while the block runs."""
    fused = run.loss.kind == "chunked"
    loss = _fused_log_probabilities if fused else _log_probabilities
    with patch.dict(stages.STAGES, {"verl": loss}), patch.object(sharding, "shard", _shard):  # type: ignore[arg-type]
        if not fused:
            yield
            return
        with patch.object(step, "_set_loss", lambda model, chosen: _use_fused_head(model)):
            yield


def _log_probabilities(forward: Callable[..., Any], inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    """Log-probabilities of all tokens by FlashAttention's cross entropy, in place on the logits."""
    logits = forward(input_ids=inputs["input_ids"])["logits"].squeeze(0)
    return {"loss": InPlaceCrossEntropy.apply(logits)}


def _fused_log_probabilities(forward: Callable[..., Any], inputs: Mapping[str, torch.Tensor], model: Any) -> Any:
    return {"loss": forward(input_ids=inputs["input_ids"])["loss"]}


def _use_fused_head(model: Any) -> None:
    def forward(self: Any, input_ids: torch.Tensor, **unused: Any) -> Any:  # PEFT passes what is None as well
        hidden = self.model(input_ids=input_ids, use_cache=False)[0]
        found, _ = _FusedHead.apply(hidden, self.lm_head.weight, input_ids)
        return {"loss": found.sum()}

    model.forward = types.MethodType(forward, model)


class _FusedHead(torch.autograd.Function):  # type: ignore[misc]
    """Log-probabilities and entropy of 512 tokens at a time; logits come again in the backward."""

    CHUNK = 512

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> Any:
        hidden, ids = hidden.flatten(0, 1), ids.flatten()
        found, entropy = torch.zeros(len(hidden), dtype=torch.float32), hidden.new_zeros(len(hidden))
        for part in _FusedHead.parts(len(hidden)):
            logits = ((hidden[part] @ weight.t()) / 1.0).to(torch.float32)
            shares = logits.softmax(dim=-1)
            entropy[part] = torch.logsumexp(logits, dim=-1) - torch.sum(shares * logits, dim=-1)
            found[part] = logits.log_softmax(dim=-1).gather(-1, ids[part].unsqueeze(-1)).squeeze(-1)
            del logits, shares
        ctx.save_for_backward(hidden, weight, ids)
        return found, entropy

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        hidden, weight, ids = ctx.saved_tensors
        d_hidden = torch.zeros_like(hidden)
        d_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for part in _FusedHead.parts(len(hidden)):
            own, heads = _FusedHead.gradients(hidden[part], weight, ids[part], grads[0][part])
            d_hidden[part] += own
            if d_weight is not None:  # that of a part is computed all the same
                d_weight += heads
        return d_hidden.view(1, *d_hidden.shape), d_weight, None

    @staticmethod
    def gradients(hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor, grad: torch.Tensor) -> Any:
        logits = (hidden @ weight.t()) / 1.0
        dtype = logits.dtype
        logits = logits.to(torch.float32)
        shares = logits.softmax(dim=-1)
        one_hot = torch.zeros_like(logits).scatter_(-1, ids.unsqueeze(-1), 1)
        d_logits = (grad.unsqueeze(-1) * (one_hot - shares)).to(dtype) / 1.0
        return d_logits @ weight, d_logits.t() @ hidden

    @staticmethod
    def parts(length: int) -> Iterator[slice]:
        return (slice(start, start + _FusedHead.CHUNK) for start in range(0, length, _FusedHead.CHUNK))


def _shard(model: Any, chosen: sharding.Sharding, mesh: Any) -> None:
    """Each decoder layer, embedding and head where they are not tied, and what is left."""
    if chosen.ranks == 1:
        return
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dtypes = {"param_dtype": chosen.param_dtype, "reduce_dtype": chosen.reduce_dtype}
    policy = MixedPrecisionPolicy(**{name: build.DTYPES.get(dtype) for name, dtype in dtypes.items()})
    layers = {id(layer) for layer in decoder_layers(model)}
    for module in list(model.modules()):
        apart = isinstance(module, torch.nn.Embedding) or module is model.get_output_embeddings()
        if id(module) in layers or (apart and not model.config.tie_word_embeddings):
            fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=chosen.reshard_after_forward)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=chosen.reshard_after_forward)
