"""torchtune's step on one GPU beside fake tensors: the modules of torchtune 0.6.1 and its recipes' order of things.

    python benchmarks/referee/torchtune_step.py            every case
    python benchmarks/referee/torchtune_step.py --write    the same, written to benchmarks/data/torchtune_step.jsonl

It needs torchtune 0.6.1 and torchao 0.9 beside torch. Weights, gradients and states are bf16 and there is no autocast
(recipes/full_finetune_single_device.py, recipes/lora_finetune_single_device.py). FlashAttention is a stand-in that
allocates what the kernel does, and 4-bit weights are dequantised by torchao's own code on fake tensors.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
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
from benchmarks.referee.torchtune_runs import predicted
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "torchtune_step.jsonl"
SIZES = ((2, 512), (1, 2048))
METHODS = ("full", "lora", "lora_mlp", "qlora", "dora")
LOSSES = ("plain", "chunked_output", "linear")
OF_PAIRS = ("full", "lora_mlp")  # methods whose preference loss is compared, too
LAYERS, WIDTH, HEADS, KEY_HEADS, INNER = 4, 1024, 16, 4, 2816
WORDS = (32000, 2000)


def cases() -> Iterator[dict[str, Any]]:
    for method, recomputes, (rows, length) in itertools.product(METHODS, (True, False), SIZES):
        for words, loss in itertools.product(WORDS, LOSSES):
            if loss == "chunked_output" or method in ("full", "lora_mlp"):
                sizes = {"words": words, "B": rows, "S": length}
                yield {"method": method, "recomputes": recomputes, "loss": loss, **sizes}
    for method, recomputes, (rows, length) in itertools.product(OF_PAIRS, (True, False), SIZES):
        yield {"method": method, "recomputes": recomputes, "loss": "dpo", "words": WORDS[0], "B": rows, "S": length}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes of each phase beside weights and rotary tables."""
    attention_functions.FlashCore.temporaries = True
    tracker = Tracker(kernels.temporaries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _model(case)
        with FakeTensorMode(), tracker, precision.CudaOperators():
            tracker.begin("base")
            _to_fake(model)
            _prepare(model, case)
            rows = case["B"] * (2 if case["loss"] == "dpo" else 1)
            reference = _reference(case)
            ids = torch.zeros((rows, case["S"]), dtype=torch.int64)
            base = tracker.current - 8 * ids.numel()
            _step(model, reference, case, ids, tracker)
    peaks = replay.phase_peaks(tracker)
    return {name: peaks[name][1] - base for name in ("forward", "backward")}


def _model(case: dict[str, Any]) -> Any:
    from torchtune.models.llama3 import llama3, lora_llama3

    shape = {
        "vocab_size": case["words"],
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "num_kv_heads": KEY_HEADS,
        "embed_dim": WIDTH,
        "max_seq_len": 4096,
        "intermediate_dim": INNER,
    }
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            if case["method"] == "full":
                return llama3(**shape)
            mlp = case["method"] in ("lora_mlp", "qlora", "dora")
            adapter = {"apply_lora_to_mlp": mlp, "lora_rank": 8, "lora_alpha": 16, "use_dora": case["method"] == "dora"}
            return lora_llama3(["q_proj", "v_proj", "output_proj"], **adapter, **shape)
    finally:
        torch.set_default_dtype(before)


def _to_fake(model: Any) -> None:
    build.to_fake(model)


def _prepare(model: Any, case: dict[str, Any]) -> None:
    from torchtune import modules, training
    from torchtune.modules.peft import get_adapter_params, set_trainable_params

    if case["method"] != "full":
        set_trainable_params(model, get_adapter_params(model))
    if case["method"] == "qlora":
        _quantise(model)
    _attend(model)
    if case["recomputes"]:
        training.set_activation_checkpointing(model, auto_wrap_policy={modules.TransformerSelfAttentionLayer})
    if case["loss"] == "chunked_output":
        model.set_num_output_chunks(8)


def _attend(model: Any) -> None:
    for module in model.modules():
        if hasattr(module, "_attention_call"):
            module._attention_call = lambda q, k, v, **_: attention_functions.FlashCore.apply(q, k, v, None)


class _Dequantised(torch.autograd.Function):  # type: ignore[misc]
    """torchao 0.9 dtypes/nf4tensor.py, LinearNF4: the product with the weight as `get_original_weight` makes it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, packed: Any) -> torch.Tensor:
        ctx.packed = packed
        return torch.nn.functional.linear(x, _original(packed))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[0] @ _original(ctx.packed), None


def _original(packed: Any) -> torch.Tensor:
    from torchao.dtypes.nf4tensor import NF4Tensor

    found: torch.Tensor = NF4Tensor.get_original_weight(packed)
    return found


def _packed(weight: torch.Tensor) -> Any:
    from torchao.dtypes.nf4tensor import NF4Tensor

    blocks = weight.numel() // 64
    found = SimpleNamespace(
        quantized_data=torch.empty(weight.numel() // 2, dtype=torch.uint8),
        quantized_scalers=torch.empty(blocks, dtype=torch.int8),
        quantization_factor=torch.empty(blocks // 256, dtype=weight.dtype),
        scaler_mean=torch.empty((), dtype=weight.dtype),
        nf4=torch.empty(16, dtype=weight.dtype),
        scaler_block_size=256,
        block_size=64,
        dtype=weight.dtype,
        shape=weight.shape,
        dequantize=NF4Tensor.dequantize,
    )
    found.dequantize_scalers = lambda *args: NF4Tensor.dequantize_scalers(found, *args)
    return found


def _quantise(model: Any) -> None:
    """The layers' linear weights in 4 bits, as `quantize_base=True` makes them."""
    import torchtune.modules.peft.lora as lora

    for layer in model.layers:
        for module in layer.modules():
            is_base = isinstance(module, lora.LoRALinear)
            if not is_base and (not isinstance(module, torch.nn.Linear) or module.weight.shape[0] == 8):
                continue
            if not is_base and any(module in (one.lora_a, one.lora_b) for one in _adapted(layer)):
                continue
            packed = _packed(module.weight)
            module.weight = None
            module.forward = (
                (lambda x, one=module, packed=packed: _with_adapter(one, packed, x))
                if is_base
                else (lambda x, packed=packed: _Dequantised.apply(x, packed))
            )


def _adapted(layer: Any) -> list[Any]:
    import torchtune.modules.peft.lora as lora

    return [one for one in layer.modules() if isinstance(one, lora.LoRALinear)]


def _with_adapter(module: Any, packed: Any, x: torch.Tensor) -> torch.Tensor:
    """modules/peft/lora.py, LoRALinear.forward."""
    out = _Dequantised.apply(x, packed)
    lora_out = module.lora_a(module.dropout(x))
    lora_out = (module.alpha / module.rank) * module.lora_b(lora_out)
    return out + lora_out


def _reference(case: dict[str, Any]) -> Any:
    """A copy of the model, for a preference loss of full fine-tuning; with adapters the model itself."""
    if case["loss"] != "dpo" or case["method"] != "full":
        return None
    found = _model(case)
    build.to_fake(found)
    found.requires_grad_(False)
    _attend(found)
    return found


def _step(model: Any, reference: Any, case: dict[str, Any], ids: torch.Tensor, tracker: Tracker) -> None:
    model.train()
    tracker.begin("forward")
    held: list[torch.Tensor] = []
    loss = _preference(model, reference or model, ids, held) if case["loss"] == "dpo" else _loss(model, case, ids)
    tracker.begin("backward")
    loss.backward()
    held.clear()


def _loss(model: Any, case: dict[str, Any], ids: torch.Tensor) -> torch.Tensor:
    """recipes/full_finetune_single_device.py, _loss_step, of 0.6.1; of the main branch for `linear`."""
    from torchtune.modules.loss import CEWithChunkedOutputLoss

    if case["loss"] == "linear":
        return _linear_loss(model, ids)
    logits = model(tokens=ids)
    labels = torch.hstack((ids[..., 1:], ids[..., :1]))
    if not isinstance(logits, list):
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))
    else:
        loss = CEWithChunkedOutputLoss()(logits, labels)
    del logits
    return loss


def _preference(model: Any, reference: Any, ids: torch.Tensor, held: list[torch.Tensor]) -> torch.Tensor:
    """recipes/lora_dpo_single_device.py and full_dpo_distributed.py of 0.6.1: the policy's logits are gone when the
    reference's forward begins, whose own a variable (`_`) holds until the next step."""
    from torchtune.rlhf.loss import DPOLoss

    chosen, rejected, logits = _log_probabilities(model, ids)
    del logits
    with torch.no_grad():
        reference_chosen, reference_rejected, logits = _log_probabilities(reference, ids)
    held.append(logits)
    loss, _, _ = DPOLoss()(chosen, rejected, reference_chosen, reference_rejected)
    return loss.mean()


def _log_probabilities(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    from torchtune import rlhf

    logits = model(ids)
    found = rlhf.get_batch_log_probs(logits, ids)
    half = len(ids) // 2
    return found[:half], found[half:], logits


def _linear_loss(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """torchtune/modules/loss/cross_entropy_loss.py of the main branch (bd2a0fc), with a label at every token."""
    head, model.output = model.output, torch.nn.Identity()
    object.__setattr__(model, "unembed", model.norm)  # as `skip_output_layer` of the main branch
    hidden = model(tokens=ids)
    hidden = hidden.reshape(-1, hidden.shape[-1])
    labels = torch.hstack((ids[..., 1:], ids[..., :1])).reshape(-1)
    hidden = hidden.index_select(0, torch.empty(labels.shape, dtype=torch.int64))
    total = torch.zeros(())
    for chunk, target in zip(hidden.tensor_split(8), labels.tensor_split(8), strict=True):
        total = total + torch.nn.functional.cross_entropy(head(chunk).float(), target, reduction="sum")
    model.output = head
    return total


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title, lambda case: str(case["method"]))


def _title(case: dict[str, Any]) -> str:
    recomputes = "recomputes" if case["recomputes"] else "keeps all"
    return f"{case['method']:9} {case['loss']:14} {recomputes:10} {case['words']:5} {case['B']}x{case['S']:<5}"


if __name__ == "__main__":
    raise SystemExit(main())
