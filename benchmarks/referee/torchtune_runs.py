"""memlint's figures for the cases of `torchtune_step.py`, which needs torchtune; these need nothing."""

from __future__ import annotations

from typing import Any

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
    Quantization,
    Run,
    Sequence,
)

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 32000,
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 2816,
    "head_dim": 64,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
}


_LOSSES = {
    "plain": Loss("plain", upcast_logits=False),
    "chunked_output": Loss("plain", upcast_logits=False, parts=8, logits_first=True),
    "linear": Loss("plain", upcast_logits=False, parts=8),
    "dpo": Loss("plain", upcast_logits=False, keeps_logits=True),
}


def _architecture(case: dict[str, Any]) -> Any:
    found = from_config({**CONFIG, "vocab_size": case["words"]})
    kinds = tuple(one._replace(class_name="TransformerSelfAttentionLayerInFp32") for one in found.layer_types)
    return found._replace(layer_types=kinds)


def run_of(case: dict[str, Any]) -> Run:
    adapter = case["method"] != "full"
    mlp = case["method"] in ("lora_mlp", "qlora", "dora")
    targets = ("q_proj", "v_proj", "o_proj", *(("gate_proj", "up_proj", "down_proj") if mlp else ()))
    return Run(
        "test",
        "",
        model=Model(
            architecture=_architecture(case),
            weights_dtype="bfloat16",
            quantization=Quantization("torchao", 4, "nf4", True) if case["method"] == "qlora" else Quantization(),
        ),
        method=Method(
            "lora" if adapter else "full",
            rank=8 if adapter else 0,
            targets=targets if adapter else (),
            stage="dpo" if case["loss"] == "dpo" else "sft",
            reference_model=_reference(case),
            use_dora=case["method"] == "dora",
            adapter_dtype="bfloat16",
        ),
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False, upcast_lmhead_output=True),
        batch=Batch(case["B"], 1),
        sequence=Sequence(case["S"]),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full" if case["recomputes"] else "none", reentrant=False),
        loss=_LOSSES[case["loss"]],
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )


def _reference(case: dict[str, Any]) -> str:
    if case["loss"] != "dpo":
        return "none"
    return "copy" if case["method"] == "full" else "shared"


def predicted(case: dict[str, Any]) -> dict[str, int]:
    phases = {one.name: one for one in estimate(run_of(case)).phases}
    weights = phases["load"].components["weights"]
    return {name: phases[name].allocated_bytes - weights for name in ("forward", "backward")}
