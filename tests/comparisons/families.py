"""The closed form beside the simulated step, for one small member of every family with a class in transformers."""

from __future__ import annotations

from importlib import metadata
from typing import Any, NamedTuple

from memlint.architectures import from_config
from memlint.architectures.builder import families
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
    Stack,
)
from tests.architectures.small import LATENT, ROUTED, SMALL, VARIANTS

# Their small members are in MORE, or differ from another family's by a vision tower alone.
DESCRIBED_BY_PARTS = {"gemma4"}


class Step(NamedTuple):
    """One way to train. `method`: full (float32 under bfloat16 autocast), pure (all bfloat16) or lora."""

    method: str
    checkpointing: bool
    attention: str

    @property
    def name(self) -> str:
        return f"{self.method} {self.attention}{' checkpointed' if self.checkpointing else ''}"


# Small members whose classes do not run in the shape that tests/architectures/small.py gives them.
_VISION_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
CHANGED: dict[str, dict[str, Any]] = {
    "ernie4_5_moe": {"moe_k": 2},
    "gpt_oss": {"num_experts_per_tok": 2},
    "qwen2_vl": _VISION_ROPE,
    "qwen2_5_vl": _VISION_ROPE,
    "glm46v": {"text_config": {**VARIANTS["glm46v"][0]["text_config"], **_VISION_ROPE}},
    "glmga": {"text_config": {**VARIANTS["glmga"][0]["text_config"], **_VISION_ROPE}},
    "glm_ocr": {"text_config": {**VARIANTS["glm_ocr"][0]["text_config"], **_VISION_ROPE}},
    "hunyuan_vl": {"text_config": {**VARIANTS["hunyuan_vl"][0]["text_config"], **_VISION_ROPE}},
    "paddleocr_vl": {"text_config": {**VARIANTS["paddleocr_vl"][0]["text_config"], **_VISION_ROPE}},
    "glm4v": {"text_config": {**SMALL, "pad_token_id": 0, **_VISION_ROPE}},
    "kimi_k25": {
        **VARIANTS["kimi_k25"][0],
        "text_config": {**VARIANTS["kimi_k25"][0]["text_config"], "num_key_value_heads": 6},
    },
    "glm4v_moe": {
        **VARIANTS["glm4v_moe"][0],
        "text_config": {
            **VARIANTS["glm4v_moe"][0]["text_config"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]},
        },
    },
    "deepseek_v32": {
        **LATENT,
        **ROUTED,
        "num_key_value_heads": 6,
        "index_n_heads": 2,
        "index_head_dim": 16,
        "index_topk": 64,
        "pad_token_id": 0,
    },
    "glm_moe_dsa": {"num_key_value_heads": 6, "index_topk": 64},
    "flex_olmo": {"pad_token_id": 0, "num_experts": 4, "num_experts_per_tok": 2},
    "helium": {"head_dim": 16},
    "llama4_text": {"pad_token_id": 0},
    "gpt2": {"n_positions": 1024, "vocab_size": 352},
    "gpt-sw3": {"n_embd": 96, "n_layer": 2, "n_head": 4, "vocab_size": 352},
    "openai-gpt": {"n_embd": 96, "n_layer": 2, "n_head": 4, "vocab_size": 352, "n_positions": 1024},
    "xglm": {"d_model": 96, "num_layers": 2, "attention_heads": 4, "ffn_dim": 200, "vocab_size": 352},
    "gpt_bigcode": {"n_positions": 1024},
    "opt": {"vocab_size": 352, "word_embed_proj_dim": 48},
    "phi": {"qk_layernorm": False},
    "mamba2": {"num_heads": 6, "head_dim": 32, "expand": 2, "n_groups": 1, "pad_token_id": 0},
    "nemotron_h": {"hybrid_override_pattern": "ME*-", "n_group": 1, "topk_group": 1, "pad_token_id": 0},
    "cohere": {"use_qk_norm": False},
    "stablelm": {"qk_layernorm": False, "use_parallel_residual": False},
    "openelm": {
        "model_dim": 96,
        "num_transformer_layers": 2,
        "num_query_heads": [6, 6],
        "num_kv_heads": [2, 2],
        "ffn_multipliers": [1.0, 2.0],
    },
    "biogpt": {"vocab_size": 352, "max_position_embeddings": 1024, "hidden_dropout_prob": 0.0},
}
OWN_NAMES = {"gpt-sw3", "openai-gpt", "xglm"}  # configurations that call nothing what SMALL calls it


# Members beside the first one of a family, under the name that their deviations are kept by.
MORE = {
    "gemma3n_text/sparse_gate": {
        "model_type": "gemma3n_text",
        **VARIANTS["gemma3n_text"][0],
        "activation_sparsity_pattern": [0.95] * 4 + [0.0] * 2,
    },
    "gemma4/own_embeddings": {"model_type": "gemma4", **VARIANTS["gemma4"][0]},
}


def members() -> dict[str, dict[str, Any]]:
    """A small configuration for every family, and for members whose code differs from the rest of their family."""
    return MORE | {
        family: {
            "model_type": family,
            **(VARIANTS[family][0] if family in VARIANTS else {} if family in OWN_NAMES else SMALL),
            **CHANGED.get(family, {}),
        }
        for family in families()
        if family not in DESCRIBED_BY_PARTS
    }


def installed() -> tuple[int, ...]:
    """The release of transformers that is installed."""
    return tuple(int(part) for part in metadata.version("transformers").split(".")[:2])


def run_of(config: dict[str, Any], step: Step) -> Run:
    """AdamW, a micro-batch of two full sequences of text, towers frozen as LLaMA-Factory freezes them. The code is that
    of the installed transformers, as a simulation's is."""
    lora, pure = step.method == "lora", step.method == "pure"
    half = Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False)
    mixed = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)
    return Run(
        "families",
        config["model_type"],
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=Method(
            "lora" if lora else "full",
            rank=8 if lora else 0,
            alpha=16,
            targets=("all-linear",) if lora else (),
            adapter_dtype="float32",
            freeze_vision_tower=True,
            freeze_multi_modal_projector=True,
        ),
        precision=half if pure else mixed,
        batch=Batch(2, 1),
        sequence=Sequence(1024),
        attention=Attention(step.attention),
        checkpointing=Checkpointing("full" if step.checkpointing else "none"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch_fused"),
        parallelism=Parallelism(1, 1, 1),
        evaluation=Evaluation(enabled=False),
        stack=Stack(transformers=installed()),
    )
