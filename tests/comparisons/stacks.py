"""Published measurements as `Run` values: what each tool really does, one function a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.architectures import from_config, resolve
from memlint.architectures.model import DecoderLayer, Weight
from memlint.hardware import find
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Fsdp,
    Hardware,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Quantization,
    Run,
    Sequence,
    Stack,
)

Row = Mapping[str, Any]
# config.json of models that the catalog lacks.
CONFIGS: Mapping[str, dict[str, Any]] = {
    # 40 layers of 2304, 3.51 B parameters (arXiv 2408.13359); five times its weight bytes is fms-granite-2
    "ibm/PowerLM-3b": {
        "model_type": "granite",
        "architectures": ["GraniteForCausalLM"],
        "hidden_size": 2304,
        "num_hidden_layers": 40,
        "num_attention_heads": 36,
        "num_key_value_heads": 36,
        "intermediate_size": 9216,
        "vocab_size": 49152,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen2-7B": {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_size": 3584,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
}
# Quantised copies whose names say only which model they copy.
BASES = {
    "TheBloke/Mistral-7B-v0.1-GPTQ": "mistralai/Mistral-7B-v0.1",
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "TheBloke/Llama-2-70B-GPTQ": "meta-llama/Llama-2-70b-hf",
    "TechxGenus/Meta-Llama-3-8B-GPTQ": "meta-llama/Meta-Llama-3-8B",
    "NousResearch/Llama-2-70b-hf": "meta-llama/Llama-2-70b-hf",
    "unsloth/Mistral-7B-v0.2": "mistral-community/Mistral-7B-v0.2",
}


class LeftOut(Exception):
    """This row is not scored; the message is the reason."""


def run_of(row: Row) -> Run:
    """The run behind a row. Raises LeftOut with the reason."""
    stack = next((function for start, function in STACKS if row["id"].startswith(start)), None)
    if stack is None:
        raise LeftOut("this tool's behaviour is not described in benchmarks/accuracy/stacks.py")
    if not row.get("seq_len") or not row.get("micro_batch_size"):
        raise LeftOut("the length or the batch of the peak is not recorded")
    if row.get("compile"):
        raise LeftOut("torch.compile decides what is kept")
    return stack(row)


def model(row: Row, **changes: Any) -> Model:
    name = BASES.get(row["model_hf_id"], row["model_hf_id"])
    config = CONFIGS.get(name)
    architecture = from_config(config) if config else resolve(name).architecture
    if architecture is None:
        raise LeftOut(f"the architecture of {name} is not known")
    return Model(name=name, architecture=architecture, **changes)


def fms(row: Row) -> Run:
    """HF Trainer / SFTTrainer with fms-acceleration, torch 2.4.1, transformers 4.45 or 4.48, packed to 4096.

    float32 logits and a copy of the shifted ones; "fast kernels" replace the cross entropy (and RMSNorm,
    rotary) by Triton kernels, with "liger" by a fused linear one. The plug-in loads bitsandbytes weights with
    double quantisation (fms_acceleration_peft/framework_plugin_bnb.py) and skips
    prepare_model_for_kbit_training; the "baseline" rows do not skip it.
    """
    notes = row["notes"]
    quantized = row.get("quantization") or ""
    bnb = Quantization("bnb", 4, "nf4", double_quant=True, upcast_rest_to_fp32="framework_config=baseline" in notes)
    gptq = Quantization("gptq", 4, prequantized=True, group_size=128)
    pure = "pure half precision" in notes
    half = "float16" if "fp16" in row["compute_dtype"] else "bfloat16"
    upcast = "fp32 flat" in row["weights_dtype"]
    return Run(
        "trainer",
        row["id"],
        model=model(
            row, weights_dtype=half, quantization=bnb if "bnb" in quantized else gptq if quantized else Quantization()
        ),
        method=_method(row),
        precision=Precision(
            half, not pure, "float32" if upcast else half, master_weights=False, outputs_to_fp32=not pure
        ),
        batch=Batch(row["micro_batch_size"], row["grad_accum"]),
        sequence=Sequence(row["seq_len"], packing=True, length_is_bound=False),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("full", reentrant=True),
        loss=_fms_loss(row),
        optimizer=Optimizer("adamw_torch"),
        parallelism=_fsdp1(row, upcast) if row["n_gpus"] > 1 else Parallelism(1, 1, 1),
        stack=Stack(
            "trainer",
            transformers=(4, 48) if "transformers 4.48" in notes else (4, 45),
            torch=(2, 4),
            peft=(0, 13),
            accelerate=(1, 0),
        ),
        hardware=Hardware(find(row["gpu"])),
    )


def _fms_loss(row: Row) -> Loss:
    if "liger" in row["fused_loss"]:
        return Loss("liger", upcast_logits=False)
    return Loss("fused_ce" if "fast CE" in row["fused_loss"] else "plain", upcast_logits=True)


def _fsdp1(row: Row, upcast: bool) -> Parallelism:
    """FSDP1 through accelerate.

    With adapters these runs hold one more B x S x H half tensor per layer at the end of the backward than on one
    GPU (2.95 against 2.00 GiB a sequence of 4096 on a 32-layer model of 4096: fms-liger-46/47, 54/55, 138/139).
    transformers before 4.52 checkpoints *around* the FSDP unit, so the unit's forward sees a detached leaf; a frozen
    flat parameter's reshard hook (torch/distributed/fsdp/_runtime_utils.py, _register_post_backward_reshard_only_hook)
    keeps that leaf and its gradient until the backward ends. Full fine-tuning does not, and neither do layers that
    checkpoint inside of themselves (GradientCheckpointingLayer, transformers 4.52).
    """
    return Parallelism(
        row["n_gpus"],
        row["n_gpus"],
        row["n_gpus"],
        engine="fsdp",
        fsdp=Fsdp(1, "FULL_SHARD", upcasts_trainable=upcast),
    )


def _method(row: Row, adapter_dtype: str = "float32") -> Method:
    if row["method"] == "full":
        return Method("full")
    targets = row.get("lora_targets")
    if not isinstance(targets, list):
        raise LeftOut("the adapted modules are not recorded exactly")
    return Method("lora", rank=row["lora_r"], alpha=16, targets=tuple(targets), adapter_dtype=adapter_dtype)


def fitcheck(row: Row) -> Run:
    """fitcheck-llm's own loop on a T4: fp16 weights, fp32 adapters, no autocast, outputs alive through the step.

    QLoRA goes through prepare_model_for_kbit_training, so its residual stream is float32; weights are nf4
    with fp32 constants (`quant_scales` = 1/8 of the packed weights).
    """
    quantized = Quantization("bnb", 4, "nf4", double_quant=False, upcast_rest_to_fp32=True)
    return Run(
        "trainer",
        row["id"],
        model=model(
            row, weights_dtype="float16", quantization=quantized if row["method"] == "qlora" else Quantization()
        ),
        method=_method(row),
        precision=Precision("float16", False, "float32", False, outputs_to_fp32=False),
        batch=Batch(row["micro_batch_size"], 1),
        sequence=Sequence(row["seq_len"], length_is_bound=False),
        attention=Attention("eager" if row["attention"].startswith("eager") else "sdpa"),
        checkpointing=Checkpointing("full", reentrant=False),
        loss=Loss("plain", upcast_logits=False, keeps_logits=True),
        optimizer=Optimizer("adamw_torch", max_grad_norm=0.0),
        parallelism=Parallelism(1, 1, 1),
        stack=Stack("trainer"),
        hardware=Hardware(find("T4")),
    )


def litgpt(row: Row) -> Run:
    """LitGPT's LoRA in bf16 on one GPU, its own layers read as transformers': fused query, key and value beside the
    adapters' own products, GELU in one kernel, no checkpointing, losses of 128 tokens at a time (litgpt/utils.py,
    chunked_cross_entropy: logits and log-softmax of all chunks stay, in half precision, where transformers' are fp32).

    4-bit rows ran bitsandbytes 0.41 and 0.42, whose 4-bit product keeps its input for the backward
    (autograd/_functions.py, MatMul4Bit: `ctx.tensors = (A, B)`; since 0.43 `(None, B)`).
    """
    if row.get("n_gpus") is None:
        raise LeftOut("rank and adapted modules, or how many GPUs took part, are not recorded")
    if row["n_gpus"] > 1:
        raise LeftOut("LitGPT's FSDP holds an unsharded gradient while it accumulates")
    if row["method"] not in ("lora", "qlora"):
        raise LeftOut("LLaMA-Adapter is not modelled")
    if row["method"] == "qlora":
        raise LeftOut("bitsandbytes before 0.43 keeps the inputs of 4-bit products: 14 to 34 % more than newer ones")
    if "autocast" in row["compute_dtype"]:
        raise LeftOut("LitGPT's own LoRA layers under autocast: 13 % more than PEFT's")
    every = "mlp" in row["lora_targets"]
    targets = ("all-linear",) if every else ("q_proj", "v_proj", "query_key_value", "qkv_proj")
    method = Method("lora", rank=row["lora_r"], alpha=16, dropout=0.05, targets=targets, adapter_dtype="bfloat16")
    return Run(
        "trainer",
        row["id"],
        model=_with_fused_projections(_in_one_kernel(model(row, weights_dtype="bfloat16"))),
        method=method,
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(row["micro_batch_size"], row["grad_accum"]),
        sequence=Sequence(row["seq_len"], length_is_bound=False),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("none"),
        loss=Loss("plain", upcast_logits=False),
        optimizer=Optimizer("adamw_torch", max_grad_norm=0.0),
        parallelism=Parallelism(1, 1, 1),
        stack=Stack("trainer"),
        hardware=Hardware(find("A100-40GB" if "A100" in row["gpu"] else "A10G")),
    )


def _in_one_kernel(known: Model) -> Model:
    """GELU's tanh form as one kernel, where transformers' `gelu_new` is several operations."""
    architecture = known.architecture
    kinds = tuple(
        layer._replace(mlp=layer.mlp._replace(activation="gelu_pytorch_tanh"))
        if layer.mlp.activation == "gelu_new"
        else layer
        for layer in architecture.layer_types
    )
    return known._replace(architecture=architecture._replace(layer_types=kinds))


def _with_fused_projections(known: Model) -> Model:
    """One projection for queries, keys and values, of which values stay a view: attention keeps the whole product
    (litgpt 0.5.13 model.py:476-479, and lit-gpt of 2023)."""
    architecture = known.architecture
    kinds = tuple(_fused(layer) for layer in architecture.layer_types)
    return known._replace(architecture=architecture._replace(layer_types=kinds))


def _fused(layer: DecoderLayer) -> DecoderLayer:
    parts = [weight for weight in layer.weights if weight.name.split(".")[-2] in ("q_proj", "k_proj", "v_proj")]
    if layer.attention.fused_qkv or not parts:
        return layer
    fused: dict[str, Weight] = {}
    for weight in parts:
        prefix, _, suffix = (*weight.name.rsplit(".", 2)[:2], weight.name.rsplit(".", 1)[1])
        name = f"{prefix}.qkv_proj.{suffix}"
        rows = weight.shape[0] + (fused[name].shape[0] if name in fused else 0)
        fused[name] = weight._replace(name=name, shape=(rows, *weight.shape[1:]))
    others = tuple(weight for weight in layer.weights if weight not in parts)
    return layer._replace(attention=layer.attention._replace(fused_qkv=True), weights=(*fused.values(), *others))


def torchtune(row: Row) -> Run:
    """torchtune's full recipe: bf16 weights, gradients and states, fused AdamW, no clipping by default."""
    if row["method"] != "full":
        raise LeftOut("the adapted modules are not recorded exactly")
    return Run(
        "trainer",
        row["id"],
        model=model(row, weights_dtype="bfloat16"),
        method=Method("full"),
        precision=Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False),
        batch=Batch(row["micro_batch_size"], 1),
        sequence=Sequence(row["seq_len"], packing=True, length_is_bound=False),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full" if row["gradient_checkpointing"] else "none", reentrant=False),
        loss=Loss("plain", upcast_logits=False),
        optimizer=Optimizer("adamw_torch_fused"),
        parallelism=Parallelism(1, 1, 1),
        stack=Stack("trainer"),
        hardware=Hardware(find("A100-80GB")),
    )


def peft_comparison(row: Row) -> Run:
    raise LeftOut("the length of the longest batch is not recorded (768 is only a cap)")


def liger_example(row: Row) -> Run:
    raise LeftOut("not packed: the padded length of the peak batch is not recorded")


def qwen(row: Row) -> Run:
    raise LeftOut("the metric (nvidia-smi or PyTorch) is not named, and Qwen v1 is remote model code")


def swift(row: Row) -> Run:
    raise LeftOut("Qwen v1 remote model code; the longest kept sample is only close to max_length")


def axolotl(row: Row) -> Run:
    raise LeftOut("figures are rounded to the GiB and given as 'about'")


STACKS: tuple[tuple[str, Callable[[Row], Run]], ...] = (
    ("fms", fms),
    ("fitcheck", fitcheck),
    ("litgpt", litgpt),
    ("tune", torchtune),
    ("peft-mm", peft_comparison),
    ("liger-qwen2", liger_example),
    ("qwen1", qwen),
    ("swift", swift),
    ("axolotl", axolotl),
)
