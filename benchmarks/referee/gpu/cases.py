"""The cases that a CUDA machine measures: each term of the memory model moved on its own.

Models are configurations only (random weights), small enough for one 24 GiB card unless `large` is set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

SMALL = (
    "LlamaConfig",
    {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    },
)
WIDE_VOCABULARY = (
    "Qwen2Config",
    {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
)
QK_NORM = (
    "Qwen3Config",
    {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
)
PLAIN_MLP = (
    "GPTNeoXConfig",
    {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "vocab_size": 50304,
    },
)
NEW_GELU = (
    "PhiConfig",
    {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "vocab_size": 51200,
    },
)
SOFT_CAPPED = (
    "Gemma2Config",
    {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 256000,
    },
)
EXPERTS = (
    "Qwen3MoeConfig",
    {
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "moe_intermediate_size": 384,
        "num_hidden_layers": 12,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "num_experts": 32,
        "num_experts_per_tok": 4,
        "vocab_size": 151936,
    },
)
SEVEN_BILLION = (
    "LlamaConfig",
    {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    },
)
EIGHT_BILLION = (
    "LlamaConfig",
    {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
    },
)
TINY = (
    "LlamaConfig",
    {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
        "tie_word_embeddings": False,
    },
)


class Case(NamedTuple):
    """One training to measure.

    `precision`: bf16, fp16 (autocast over float32 trainable weights), pure_bf16, fp32. `quantization`: "", nf4,
    nf4-dq, int8. `checkpointing`: none, reentrant, non_reentrant. `evaluate`: evaluation batch, 0 = none.
    `allocator`: PYTORCH_CUDA_ALLOC_CONF. `large`: needs a card of 80 GiB.
    """

    id: str
    model: tuple[str, dict[str, Any]]
    method: str = "full"
    rank: int = 8
    dropout: float = 0.0
    targets: str = "all-linear"
    trainable_layers: int = 0
    quantization: str = ""
    precision: str = "bf16"
    attention: str = "sdpa"
    checkpointing: str = "reentrant"
    micro_batch_size: int = 2
    sequence_length: int = 1024
    accumulation: int = 1
    optimizer: str = "adamw_torch_fused"
    max_grad_norm: float = 1.0
    liger: bool = False
    evaluate: int = 0
    allocator: str = ""
    large: bool = False


def cases() -> Iterator[Case]:
    """All cases, one knob at a time around a few centres."""
    full, lora = Case("full", SMALL), Case("lora", SMALL, method="lora")
    yield from (full, lora)
    for centre in (full, lora):
        for name, changes in _knobs():
            yield centre._replace(id=f"{centre.id}-{name}", **changes)
    for name, architecture in _architectures():
        yield lora._replace(id=f"lora-{name}", model=architecture)
        yield full._replace(id=f"full-{name}", model=architecture, precision="pure_bf16")
        yield lora._replace(id=f"lora-{name}-nocheckpoint", model=architecture, checkpointing="none")
    for name in ("nf4", "nf4-dq", "int8"):
        yield lora._replace(id=f"qlora-{name}", quantization=name)
        yield lora._replace(id=f"qlora-{name}-wide", quantization=name, model=WIDE_VOCABULARY)
    for layers in (2, -2):
        yield full._replace(id=f"freeze{layers}", method="freeze", trainable_layers=layers)
    for name in _OPTIMIZERS:
        yield full._replace(id=f"optimizer-{name}", optimizer=name, precision="pure_bf16", sequence_length=256)
    yield from _large()


def _knobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for attention in ("eager", "flash_attention_2"):
        yield attention, {"attention": attention}
        yield f"{attention}-nocheckpoint", {"attention": attention, "checkpointing": "none"}
    for mode in ("none", "non_reentrant"):
        yield f"checkpoint-{mode}", {"checkpointing": mode}
    for precision in ("fp16", "pure_bf16", "fp32"):
        yield precision, {"precision": precision}
    for batch, length in ((1, 1024), (4, 1024), (8, 512), (1, 4096), (2, 2048)):
        yield f"b{batch}-s{length}", {"micro_batch_size": batch, "sequence_length": length}
    yield "accumulate", {"accumulation": 4}
    yield "no-clipping", {"max_grad_norm": 0.0}
    yield "liger", {"liger": True}
    yield "evaluate", {"evaluate": 8}
    yield "expandable", {"allocator": "expandable_segments:True"}
    yield "foreach", {"optimizer": "adamw_torch"}
    yield "wide", {"model": WIDE_VOCABULARY}
    yield "wide-liger", {"model": WIDE_VOCABULARY, "liger": True}


_OPTIMIZERS = (
    "adamw_torch",
    "adamw_torch_fused",
    "adafactor",
    "sgd",
    "adagrad",
    "rmsprop",
    "adamw_bnb_8bit",
    "paged_adamw_8bit",
    "lion_8bit",
    "ademamix_8bit",
    "galore_adamw",
    "apollo_adamw",
    "lomo",
)


def _architectures() -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    yield from (("qknorm", QK_NORM), ("neox", PLAIN_MLP), ("phi", NEW_GELU), ("gemma2", SOFT_CAPPED), ("moe", EXPERTS))


def _large() -> Iterator[Case]:
    for name, architecture in (("7b", SEVEN_BILLION), ("8b", EIGHT_BILLION)):
        lora = Case(f"lora-{name}", architecture, method="lora", micro_batch_size=4, sequence_length=4096, large=True)
        yield lora
        yield lora._replace(id=f"lora-{name}-liger", liger=True)
        yield lora._replace(id=f"lora-{name}-rank64", rank=64)
        yield lora._replace(id=f"lora-{name}-nocheckpoint", checkpointing="none", micro_batch_size=1)
        yield lora._replace(id=f"qlora-{name}", quantization="nf4-dq")
        yield lora._replace(id=f"full-{name}-pure", method="full", precision="pure_bf16", micro_batch_size=1)
