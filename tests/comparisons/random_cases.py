"""Random training steps: the closed form beside the simulated step."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Evaluation,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Run,
    Sequence,
)

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "random_cases.jsonl"
# Families whose layers the closed form describes block by block, with what their small members need.
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
    "gemma": {"head_dim": 32},
    "gemma2": {"head_dim": 32, "query_pre_attn_scalar": 32},
    "phi": {"qk_layernorm": False},
    "phi3": {"pad_token_id": 0},
    "gpt_neox": {},
    "starcoder2": {},
    "olmo2": {},
    "granite": {},
    "cohere": {"use_qk_norm": False},
    "stablelm": {"qk_layernorm": False, "use_parallel_residual": False},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "head_dim": 32},
}
# Others, which seeds from FIRST_OF_OTHERS on draw, with more losses.
OTHERS: dict[str, dict[str, Any]] = {
    "arcee": {},
    "ernie4_5": {"head_dim": 32},
    "glm": {"head_dim": 32, "pad_token_id": 0},
    "glm4": {"head_dim": 32, "pad_token_id": 0},
    "gpt_oss": {"head_dim": 32, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "helium": {"head_dim": 32},
    "hunyuan_v1_dense": {"head_dim": 32},
    "nemotron": {},
    "olmo": {},
    "olmo3": {},
    "olmoe": {"num_experts": 8, "num_experts_per_tok": 2},
    "qwen2_moe": {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 128,
    },
    "seed_oss": {"head_dim": 32},
    "smollm3": {"pad_token_id": 0},
}
FIRST_OF_OTHERS = 900_000
_TARGETS = (("all-linear",), ("q_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj"))


class Case(NamedTuple):
    seed: int
    config: dict[str, Any]
    run: Run


def case(seed: int) -> Case:
    """The case of a seed: the same on every machine."""
    draw = random.Random(seed)
    families = FAMILIES if seed < FIRST_OF_OTHERS else OTHERS
    family = draw.choice(sorted(families))
    config = {"model_type": family, **_sizes(draw), **families[family]}
    kind = draw.choice(("full", "lora", "lora", "freeze"))
    pure = draw.random() < 0.4
    trainable = "bfloat16" if pure else "float32"
    targets = draw.choice(_TARGETS) if family in ("llama", "mistral", "qwen2", "qwen3", "gemma") else _TARGETS[0]
    method = Method(
        kind,
        rank=draw.choice((4, 8, 32)),
        alpha=16,
        dropout=draw.choice((0.0, 0.0, 0.1)) if kind == "lora" else 0.0,
        targets=targets,
        adapter_dtype=trainable,
        freeze_trainable_layers=draw.randint(1, 2) if kind == "freeze" else 0,
    )
    run = Run(
        "random",
        f"{family}-{kind}-{seed}",
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=method,
        precision=Precision("bfloat16", not pure, trainable, False, outputs_to_fp32=not pure),
        batch=Batch(draw.randint(1, 4), draw.choice((1, 2))),
        sequence=Sequence(draw.choice((64, 128, 256, 384))),
        attention=Attention(_attention(family, draw.choice(("sdpa", "eager", "flash_attention_2")))),
        checkpointing=Checkpointing(draw.choice(("none", "full")), reentrant=draw.random() < 0.5),
        loss=Loss("plain"),
        optimizer=Optimizer(draw.choice(("adamw_torch", "adamw_torch_fused", "sgd"))),
        parallelism=Parallelism(1, 1, 1),
        evaluation=Evaluation(enabled=False),
    )
    if seed >= FIRST_OF_OTHERS:
        chosen = draw.choice(("plain", "liger", "chunked"))
        run = run._replace(loss=Loss(chosen, chunk_tokens=256 if chosen == "chunked" else 0))
    return Case(seed, config, run)


def _attention(family: str, drawn: str) -> str:
    """Gemma 2 and gpt-oss have no sdpa in transformers 5.23 (`_supports_sdpa` of their classes)."""
    return "eager" if family in ("gemma2", "gpt_oss") and drawn == "sdpa" else drawn


def _sizes(draw: random.Random) -> dict[str, Any]:
    heads = draw.choice((4, 8))
    hidden = 32 * heads * draw.choice((1, 2))
    return {
        "hidden_size": hidden,
        "intermediate_size": draw.choice((2, 3, 4)) * hidden,
        "num_hidden_layers": draw.randint(2, 4),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice((heads, heads // 2, heads // 4)),
        "vocab_size": draw.choice((512, 2048, 8192)),
        "tie_word_embeddings": draw.random() < 0.4,
    }


def errors(one: Case, found: dict[str, int]) -> dict[str, float]:
    """Relative errors of the closed form."""
    answer = estimate(one.run)
    if answer.allocated_bytes is None:
        return {}
    by_name = {phase.name: phase.allocated_bytes for phase in answer.phases}
    result = {"peak": answer.allocated_bytes / found["peak"] - 1}
    return result | {name: by_name[name] / found[name] - 1 for name in ("forward", "backward")}


def kept() -> list[tuple[Case, dict[str, int]]]:
    """The kept cases with their simulated bytes."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    return [(case(row["seed"]), {name: row[name] for name in ("forward", "backward", "peak")}) for row in rows]
