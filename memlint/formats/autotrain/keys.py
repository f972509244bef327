"""The parameters of AutoTrain's language models, read in autotrain-advanced 0.7.80 to 0.8.36 (trainers/clm/params.py),
with their flags. `passes` names the argument of transformers or TRL that a parameter becomes: its format reads that.
"""

from __future__ import annotations

from memlint.formats.autotrain.config import AutotrainConfig
from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.run import Origin

LENGTH = "params.block_size"
BOUND = "params.model_max_length"
BACKEND = "params.distributed_backend"
PRECISION = "params.mixed_precision"
QUANTIZATION = "params.quantization"
ADAPTER = "params.peft"
SPLIT = "data.valid_split"


def adapts(config: AutotrainConfig) -> bool:
    return config.trains_adapter


def prefers(config: AutotrainConfig) -> bool:
    return config.stage in ("dpo", "orpo")


def read_length(fields: Fields, config: AutotrainConfig) -> None:
    """`block_size`, or 1024, and at most `model_max_length` (trainers/clm/utils.py, configure_block_size)."""
    if config.length is None:
        fields.unknown("sequence.length", f"`{LENGTH}` is no whole number")
        return
    reason = f"`block_size` or 1024, at most `model_max_length`: {config.length} tokens"
    bound = config.number(BOUND)
    is_bound = config.written(LENGTH) is not None and config.integer(LENGTH) == config.length
    origin = config.origin(LENGTH if is_bound or bound is None else BOUND)
    fields.put("sequence.length", config.length, origin if origin.pointer else Origin("default", detail=reason))


def _write_length(change: FieldChange) -> Written | None:
    """Both bounds, where the tokenizer's would cut before."""
    given = change.section.get("params", change.section)
    bound = given.get("model_max_length", 2048) if isinstance(given, dict) else 2048
    longer = isinstance(bound, int) and bound < change.value
    return {LENGTH: change.value, **({BOUND: change.value} if longer else {})}


def _write_checkpointing(change: FieldChange) -> Written | None:
    keeps = {"full": False, "none": True}.get(change.value)
    return None if keeps is None else {"params.disable_gradient_checkpointing": keeps}


def _write_adapter(change: FieldChange) -> Written | None:
    """An adapter, whose base AutoTrain quantises unless told otherwise."""
    if change.value not in ("lora", "full"):
        return None
    bits = change.changes.get("model.quantization.bits", change.run.model.quantization.bits)
    whole = {} if bits in (4, 8) else {QUANTIZATION: "none"}
    return {ADAPTER: True, **whole} if change.value == "lora" else {ADAPTER: False}


def _write_bits(change: FieldChange) -> Written | None:
    """4 or 8 bits go with an adapter alone."""
    if change.changes.get("method.kind", change.run.method.kind) != "lora":
        return None
    word = {4: "int4", 8: "int8", 16: "none"}.get(change.value)
    return None if word is None else {QUANTIZATION: word}


def _write_targets(change: FieldChange) -> Written | None:
    names = change.value if isinstance(change.value, (tuple, list)) else (change.value,)
    return {"params.target_modules": ",".join(map(str, names))}


def _write_attention(change: FieldChange) -> Written | None:
    """FlashAttention 2 or not: AutoTrain has no word for others."""
    return {"params.use_flash_attention_2": True} if change.value == "flash_attention_2" else None


_MODEL = (
    Key(
        *("base_model", "text", "model.name"),
        older=("model",),
        passes="model_name_or_path",
        read_only=True,
        about="The model: a name of the Hugging Face hub or a folder. The flag is `--model`.",
    ),
    Key(
        *("task", "text", "method.stage"),
        write_only=True,
        read_only=True,
        about="`llm-sft`, `llm-dpo`, `llm-orpo`, `llm-reward`, `llm-generic`, or `llm` with `params.trainer`.",
    ),
    Key(
        *("params.trainer", "text", "", "default"),
        older=("trainer",),
        about="sft, dpo, orpo, reward, or default: transformers' own trainer on blocks of text.",
    ),
    Key(
        *(LENGTH, "any", "sequence.length", -1),
        older=("block_size",),
        passes="max_length",
        about="Tokens of a row; -1 is 1024. Never more than `model_max_length`.",
        read=read_length,
        write=_write_length,
    ),
    Key(
        *(BOUND, "whole", "", 2048),
        older=("model_max_length", "max_len", "max_length"),
        about="What the tokenizer cuts at, if the model's own bound is above 2048: it bounds `block_size`, too.",
    ),
    Key(
        *("params.max_prompt_length", "whole", "sequence.max_prompt_length", 128),
        older=("max_prompt_length",),
        passes="max_prompt_length",
        when=prefers,
        about="What a prompt is cut to, for DPO and ORPO.",
    ),
    Key(
        *("params.use_flash_attention_2", "flag", "attention.implementation", False),
        older=("use_flash_attention_2", "use_fa2"),
        write_only=True,
        write=_write_attention,
        about="Attention by FlashAttention 2; transformers' choice unless said.",
    ),
    Key(
        *("params.unsloth", "flag", "stack.use_unsloth", False),
        older=("unsloth",),
        passes="use_unsloth",
        read_only=True,
        about="Load the model with Unsloth, for the trainers default and sft, and Llama, Mistral, Gemma and Qwen2.",
    ),
    Key(
        *("params.model_ref", "text", "method.reference_model"),
        older=("model_ref",),
        write_only=True,
        read_only=True,
        about="The reference of DPO; a copy of the model unless said. None with an adapter.",
    ),
)
_ADAPTER = (
    Key(
        *(ADAPTER, "flag", "method.kind", False),
        older=("peft", "use_peft"),
        passes="use_peft",
        write=_write_adapter,
        about="Train a LoRA adapter. Without it `quantization` has no effect, and all of the model trains.",
    ),
    Key(
        *(QUANTIZATION, "text", "model.quantization.bits", "int4"),
        older=("quantization",),
        write_only=True,
        write=_write_bits,
        about="int4 (nf4) or int8 of the base model below an adapter; any other word for none.",
    ),
    Key("use_int4", "flag", about="In releases of 2023: load the base model in 4 bits."),
    Key("use_int8", "flag", about="In releases of 2023: load the base model in 8 bits."),
    Key(
        *("params.lora_r", "whole", "method.rank", 16),
        older=("lora_r",),
        passes="lora_r",
        least=1,
        when=adapts,
        about="The rank of LoRA. The adapter's parameters, gradients and optimizer state grow with it.",
    ),
    Key(
        *("params.lora_alpha", "whole", "method.alpha", 32),
        older=("lora_alpha",),
        passes="lora_alpha",
        when=adapts,
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
    ),
    Key(
        *("params.lora_dropout", "number", "method.dropout", 0.05),
        older=("lora_dropout",),
        passes="lora_dropout",
        least=0,
        when=adapts,
        about="Dropout before the adapter. Above 0 its masked input is kept for the backward pass.",
    ),
    Key(
        *("params.target_modules", "text", "method.targets", "all-linear"),
        older=("target_modules",),
        write_only=True,
        write=_write_targets,
        about="The linear layers that get an adapter, with commas between them; all of them unless said.",
    ),
)
_TRAINING = (
    Key(
        *("params.batch_size", "whole", "batch.micro_batch_size", 2),
        older=("batch_size", "train_batch_size"),
        passes="per_device_train_batch_size",
        least=1,
        about="Sequences per GPU and forward pass. Activations and logits grow with it.",
    ),
    Key(
        *("params.gradient_accumulation", "whole", "batch.gradient_accumulation_steps", 4),
        older=("gradient_accumulation", "gradient_accumulation_steps"),
        passes="gradient_accumulation_steps",
        least=1,
        about="Backward passes of a step.",
    ),
    Key(
        *("params.auto_find_batch_size", "flag", "batch.auto_find", False),
        older=("auto_find_batch_size",),
        passes="auto_find_batch_size",
        about="Halve the batch after each out-of-memory error.",
    ),
    Key(
        *("params.disable_gradient_checkpointing", "flag", "checkpointing.mode", False),
        older=("disable_gradient_checkpointing", "disable_gc"),
        write_only=True,
        write=_write_checkpointing,
        about="Keep all activations for the backward pass. AutoTrain recomputes each layer unless told.",
    ),
    Key(
        *("params.optimizer", "word", "optimizer.name", "adamw_torch"),
        older=("optimizer",),
        passes="optim",
        about="The optimizer, by the Trainer's names.",
    ),
    Key(
        *("params.lr", "number", "optimizer.learning_rate", 3e-5),
        older=("lr", "learning_rate"),
        passes="learning_rate",
        about="The learning rate. It takes no memory.",
    ),
    Key(
        *(PRECISION, "text", "precision.autocast"),
        older=("mixed_precision", "mp"),
        write_only=True,
        read_only=True,
        about="bf16 or fp16: what autocast computes in. Weights are loaded in fp32 whatever it says.",
    ),
    Key(
        *("params.eval_strategy", "word", "evaluation.enabled", "epoch"),
        older=("eval_strategy", "evaluation_strategy"),
        write_only=True,
        read_only=True,
        about="When to evaluate, if `data.valid_split` names a split.",
    ),
    Key(
        *(SPLIT, "text"),
        older=("valid_split",),
        about="The split to evaluate on. Without it there is no evaluation, and no checkpoint before the end.",
    ),
    Key(
        *(BACKEND, "text", "parallelism.engine"),
        older=("distributed_backend",),
        write_only=True,
        read_only=True,
        about="With several GPUs: ddp, or deepspeed for ZeRO-3 without offload.",
    ),
)
KEYS = Keys(*_MODEL, *_ADAPTER, *_TRAINING)
