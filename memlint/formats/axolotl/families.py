"""What Axolotl does for some model families, by model_type, or by a word in the model's name where it looks there."""

from __future__ import annotations

from memlint._record import NamedTuple


class Skipped(NamedTuple):
    """Modules that are not quantised: from which release of Axolotl on, and for which bits."""

    modules: tuple[str, ...]
    since: tuple[int, ...] = ()
    bits: tuple[int, ...] = (4, 8)


# loaders/model.py:782-814, _set_quantization_config
NOT_QUANTIZED = {"falcon_h1": Skipped(("out_proj",), since=(0, 11)), "jamba": Skipped(("mamba",), bits=(8,))}

# What transformers 5 calls `mlp`, and mixtures before it otherwise (4.57.6 models/{mixtral,phimoe}/modeling_*.py).
MLP_CALLED_BEFORE = {"mixtral": "block_sparse_moe", "phimoe": "block_sparse_moe"}

# Experts of a `Linearized` checkpoint are frozen linear layers (`llama4_linearized_experts`).
LINEARIZES_EXPERTS = ("llama4", "llama4_text")

# model_support/*/__init__.py: lora_kernels unsupported
WITHOUT_LORA_KERNELS = ("paddleocr_vl", "muse_glimmer", "qwen4_exp")

# model_support/kimi_linear/modeling_kimi.py:815, a list of linear layers
OWN_CODE_FOR_EXPERTS = ("kimi_linear",)

# Checkpointing never re-enters, whatever the file says.
NEVER_REENTRANT = ("gemma4", "gemma4_unified")
# DDP looks for unused parameters unless the file says otherwise (utils/config/__init__.py:419).
FINDS_UNUSED_PARAMETERS = ("gemma4", "gemma4_unified")

# Words in the name of a model for which keys are refused (utils/schemas/validation.py:1569 and 1563).
NAMED_WITHOUT_CHECKPOINTING = "mpt"
