"""The forwards and the update of reinforcement learning beside steps on fake tensors.

    python benchmarks/referee/rollout_phases.py            the cases that the closed form was made with
    python benchmarks/referee/rollout_phases.py --others   60 cases of other models, lengths and checkpointing
    python benchmarks/referee/rollout_phases.py --padded   padded sequences, as verl's actor and its engine read them
    python benchmarks/referee/rollout_phases.py --skyrl    SkyRL's loss, which holds the logits and watches the entropy
    python benchmarks/referee/rollout_phases.py --write    the same, written to benchmarks/data/rollout_phases.jsonl

Each case is a small model, a micro-batch and an entropy: log-probabilities without gradients as verl 0.9.1 computes
them (workers/engine/fsdp/transformer_impl.py, utils/torch_functional.py), and the update with gradient checkpointing.
torch's own operators run; FlashAttention and its cross entropy are stand-ins that allocate what they do.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.fake_step as fake_step
import memlint.simulation.checkpoints as checkpoints
import memlint.simulation.precision as precision
from benchmarks.command import parser
from benchmarks.referee.beside import compare
from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
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
from memlint.simulation.losses import InPlaceCrossEntropy
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "rollout_phases.jsonl"
SHAPE = {"intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64}
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LlamaConfig", {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000}),
    ("Qwen2Config", {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936}),
    ("Qwen3Config", {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936}),
    ("MistralConfig", {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "vocab_size": 32768}),
)
# Models and settings that had no part in it: tied embeddings, capped and scaled logits, layer norms, experts, widths
# that are no powers of two. (rows, tokens of each, checkpointed)
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Gemma2Config", {"model_type": "gemma2", "vocab_size": 256000, "tie_word_embeddings": True}),
    ("Gemma3TextConfig", {"model_type": "gemma3_text", "vocab_size": 262144, "tie_word_embeddings": True}),
    ("Phi3Config", {"model_type": "phi3", "vocab_size": 32064, "hidden_size": 1536, "head_dim": 96, "pad_token_id": 0}),
    ("Glm4Config", {"model_type": "glm4", "vocab_size": 151552, "pad_token_id": 0}),
    ("Olmo2Config", {"model_type": "olmo2", "vocab_size": 100352, "num_key_value_heads": 16}),
    ("GraniteConfig", {"model_type": "granite", "vocab_size": 49155, "hidden_size": 1280, "logits_scaling": 8.0}),
    ("Starcoder2Config", {"model_type": "starcoder2", "vocab_size": 49152, "hidden_size": 768, "head_dim": 48}),
    ("CohereConfig", {"model_type": "cohere", "vocab_size": 256000, "tie_word_embeddings": True}),
    (
        "Qwen3MoeConfig",
        {"model_type": "qwen3_moe", "vocab_size": 151936, "num_experts": 16, "num_experts_per_tok": 4}
        | {"moe_intermediate_size": 512, "hidden_size": 896},
    ),
    ("SmolLM3Config", {"model_type": "smollm3", "vocab_size": 128256, "tie_word_embeddings": True, "pad_token_id": 0}),
)
OTHER_SIZES = ((1, 4096, True), (3, 1536, False))
OTHER_ENTROPIES = ("none", "whole", "recomputed")
SIZES = ((2, 512), (4, 1024))
ENTROPIES = ("none", "whole", "recomputed", "chunked")
PADDED, PADDED_ENTROPIES = ("actor", "engine_0_8", "engine"), ("none", "whole", "recomputed")
LAYERS = {"hidden_size": 1024, "num_hidden_layers": 4, "tie_word_embeddings": False, "max_position_embeddings": 8192}


def cases() -> Iterator[dict[str, Any]]:
    for (kind, model), (rows, length), entropy in itertools.product(MODELS, SIZES, ENTROPIES):
        yield {"config_class": kind, "config": {**model, **SHAPE, **LAYERS}, "B": rows, "S": length, "entropy": entropy}
    for (kind, model), (rows, length) in itertools.product(MODELS, SIZES):
        case = {"config_class": kind, "config": {**model, **SHAPE, **LAYERS}, "B": rows, "S": length}
        yield {**case, "entropy": "none", "teacher_words": 32}


def others() -> Iterator[dict[str, Any]]:
    for (kind, model), (rows, length, checkpointed), entropy in itertools.product(OTHERS, OTHER_SIZES, OTHER_ENTROPIES):
        config = {**SHAPE, **LAYERS, **model, "architectures": None}
        yield {
            "config_class": kind,
            "config": config,
            "B": rows,
            "S": length,
            "entropy": entropy,
            "checkpointed": checkpointed,
        }


def padded() -> Iterator[dict[str, Any]]:
    """Half of each sequence is its answer. verl's actor until 0.7.1, its engine in 0.8.0 and in 0.9.1."""
    for (kind, model), rows, entropy, reads in itertools.product(MODELS[:2], (1, 4), PADDED_ENTROPIES, PADDED):
        config = {**model, **SHAPE, **LAYERS}
        yield {"config_class": kind, "config": config, "B": rows, "S": 1024, "entropy": entropy, "padded": reads}


def skyrl() -> Iterator[dict[str, Any]]:
    """Sequences that are joined, and padded ones."""
    sizes = ((1, 700), (1, 1500), (1, 4096), (3, 1536))
    for (kind, model), (rows, length) in itertools.product((*MODELS, *OTHERS), sizes):
        config = {**SHAPE, **LAYERS, **model, "architectures": None}
        yield {"config_class": kind, "config": config, "B": rows, "S": length, "entropy": "watched", "held": True}


_SKYRL_ROWS = 1024


def _held_loss(model: Any, ids: torch.Tensor, entropy: str) -> tuple[torch.Tensor, Any]:
    """SkyRL 0.3.0 skyrl/backends/skyrl_train/workers/model_wrapper.py, forward, and utils/torch_utils.py,
    chunked_entropy_from_logits; `entropy`: none in the forward before the update."""
    with precision.autocast(torch.bfloat16):
        output = model(input_ids=ids, use_cache=False)
        logits = output["logits"]
        logits.div_(1.0)
        found: torch.Tensor = InPlaceCrossEntropy.apply(logits.reshape(-1, logits.shape[-1]))
        if entropy == "none":
            return found, output
        with torch.no_grad():
            values = torch.zeros(logits.shape[:2], dtype=logits.dtype, device=logits.device)
            for start in range(0, logits.shape[1], _SKYRL_ROWS):
                scores = torch.nn.functional.log_softmax(logits[:, start : start + _SKYRL_ROWS], dim=-1)
                chunk = scores.exp()
                values[:, start : start + _SKYRL_ROWS] = -(chunk * scores).sum(-1)
    return found, output


class _Joined(torch.autograd.Function):  # type: ignore[misc]
    """`torch.cat(torch.nested.narrow(logits, 1, starts, lengths, layout=torch.jagged).unbind())`: on real tensors its
    node keeps the padded logits, and their gradient is a new tensor. Fake tensors have no lengths to narrow by."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        return torch.cat([*logits])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return torch.empty_like(ctx.saved_tensors[0]).copy_(grads[0].view_as(ctx.saved_tensors[0]))


def _padded_loss(model: Any, ids: torch.Tensor, case: dict[str, Any]) -> torch.Tensor:
    """verl 0.7.1 workers/actor/dp_actor.py:283-306, 0.8.0 and 0.9.1 workers/engine/fsdp/transformer_impl.py."""
    kind, reads = case["entropy"], case["padded"]
    with precision.autocast(torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits
        if reads != "engine":
            logits.div_(1.0)
        entropy = entropy_of(kind, logits) if kind != "none" and reads != "actor" else None
        if reads == "actor":
            logits = logits[:, -ids.shape[1] // 2 - 1 : -1, :]
            found = InPlaceCrossEntropy.apply(logits.reshape(-1, logits.shape[-1]))
        else:
            found = InPlaceCrossEntropy.apply(_Joined.apply(logits))
        if kind != "none" and entropy is None:
            entropy = entropy_of(kind, logits)
    return found if entropy is None else found + entropy.sum()


def entropy_of(kind: str, logits: torch.Tensor) -> torch.Tensor:
    if kind == "recomputed":
        found: torch.Tensor = torch.utils.checkpoint.checkpoint(_entropy, logits, use_reentrant=False)
        return found
    if kind != "chunked":
        return _entropy(logits)
    parts = [_entropy(part.float()) for part in logits.split(2048)]
    return torch.cat(parts)


def _entropy(logits: torch.Tensor) -> torch.Tensor:
    probabilities = torch.nn.functional.softmax(logits, dim=-1)
    return torch.logsumexp(logits, dim=-1) - torch.sum(probabilities * logits, dim=-1)


def _from_teacher(model: Any, ids: torch.Tensor, words: int) -> torch.Tensor:
    """Distillation from a teacher's likeliest words, without another loss (verl 0.9.1 trainer/distillation/fsdp/
    losses.py, compute_forward_kl_topk; workers/engine/fsdp/transformer_impl.py runs it under autocast)."""
    with precision.autocast(torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits.view(-1, model.config.vocab_size)
        theirs = torch.zeros(len(logits), words, device=logits.device)
        chosen = torch.zeros(len(logits), words, dtype=torch.int64, device=logits.device)
        log_probabilities = torch.nn.functional.log_softmax(logits, dim=-1)
        torch.topk(log_probabilities, k=words, dim=-1)
        ours = torch.gather(log_probabilities, dim=-1, index=chosen)
        found: torch.Tensor = (theirs.exp() * (theirs - ours.float())).sum(dim=-1)
    return found.sum()


def _loss(model: Any, ids: torch.Tensor, kind: str) -> torch.Tensor:
    with precision.autocast(torch.bfloat16):
        logits = model(input_ids=ids, use_cache=False).logits.view(-1, model.config.vocab_size)
        entropy = entropy_of(kind, logits).sum() if kind != "none" else None
        found: torch.Tensor = InPlaceCrossEntropy.apply(logits)
    return found if entropy is None else found + entropy


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights at the peak of each phase."""

    def step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
        (model,) = models
        model.eval()
        tracker.begin("log_probabilities")
        if case.get("held"):
            with torch.no_grad():
                _held_loss(model, ids, "none")
            checkpoints.enable(model, checkpoints.Kind(False, False, False), tracker)
            model.train()
            tracker.begin("forward")
            loss, output = _held_loss(model, ids, case["entropy"])
            tracker.begin("backward")
            loss.backward()
            del output
            return
        with torch.no_grad():
            _padded_loss(model, ids, case) if "padded" in case else _loss(model, ids, case["entropy"])
        if case["entropy"] == "chunked":
            return
        if case.get("checkpointed", True):
            checkpoints.enable(model, checkpoints.Kind(False, False, False), tracker)
        model.train()
        tracker.begin("forward")
        words = case.get("teacher_words", 0)
        if "padded" in case:
            loss = _padded_loss(model, ids, case)
        else:
            loss = _from_teacher(model, ids, words) if words else _loss(model, ids, case["entropy"])
        tracker.begin("backward")
        loss.backward()

    return fake_step.phases(case, step)


def predicted(case: dict[str, Any]) -> dict[str, int]:
    rows, length = case["B"], case["S"]
    run = Run(
        "test",
        "",
        model=Model(architecture=from_config(case["config"]), weights_dtype="bfloat16"),
        method=Method("full", stage="grpo"),
        precision=Precision("bfloat16", True, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(rows, 1),
        sequence=Sequence(length, max_new_tokens=length // 2 if "padded" in case else 0),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full" if case.get("checkpointed", True) else "none", reentrant=False),
        loss=Loss(
            "fused_ce",
            divergence="likeliest" if case.get("teacher_words") else "",
            prompt_logits=True,
            entropy=case["entropy"],
            chunk_tokens=_SKYRL_ROWS * rows if case.get("held") else 2048,
            keeps_logits=case.get("held", False),
            upcast_logits=False,
            scores_completions=case.get("padded") == "actor",
            joins_logits=case.get("padded", "actor") != "actor",
            divides_in_place=case.get("padded", "engine") != "engine" or case.get("held", False),
        ),
        rollout=Rollout("vllm", log_prob_micro_batch_size=rows, log_prob_entropy=_before(case)),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )
    found = {one.name: one for one in estimate(run).phases}
    return {name: one.allocated_bytes - one.components["weights"] for name, one in found.items()}


def _before(case: dict[str, Any]) -> str:
    """The entropy of the forward before the update."""
    return "none" if case.get("held") else str(case["entropy"])


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--skyrl", action="store_true", help="SkyRL's loss")
    arguments.add_argument("--write", action="store_true", help="write the simulated figures")
    arguments.add_argument("--padded", action="store_true", help="padded sequences, as verl reads them")
    arguments.add_argument("--others", action="store_true", help="models and settings that the closed form never saw")
    asked = arguments.parse_args()
    chosen = next((name for name in ("others", "padded", "skyrl") if getattr(asked, name)), "")
    figures = compare(_CHOSEN[chosen](), simulated, predicted, _title)
    if asked.write:
        target = DATA.with_name(f"rollout_phases_{chosen}.jsonl") if chosen else DATA
        target.write_text(figures, encoding="utf-8")
    return 0


def _title(case: dict[str, Any]) -> str:
    words = f"top {case['teacher_words']}" if "teacher_words" in case else case["entropy"]
    return f"{case['config_class']:14} {case['B']}x{case['S']:<5} {words:10} {case.get('padded', '')}"


_CHOSEN = {"": cases, "others": others, "padded": padded, "skyrl": skyrl}


if __name__ == "__main__":
    raise SystemExit(main())
