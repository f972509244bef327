"""Small runs to estimate in tests."""

from __future__ import annotations

from typing import Any

from memlint.architectures import from_config
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
    Run,
    Sequence,
    replace,
)

TINY: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4000,
    "tie_word_embeddings": False,
}

LLAMA_8B: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def run(config: dict[str, Any] | None = None, **changes: object) -> Run:
    """A full fine-tuning step in pure bf16 on one GPU, with dotted names replaced (`__` for a dot)."""
    base = Run(
        "test",
        "test.yaml",
        model=Model(architecture=from_config({**TINY, **(config or {})}), weights_dtype="bfloat16"),
        method=Method("full"),
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(2, 1),
        sequence=Sequence(256),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("none"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
    )
    return replace(base, {name.replace("__", "."): value for name, value in changes.items()})


LORA = {"method__kind": "lora", "method__rank": 8, "method__targets": ("all-linear",)}
