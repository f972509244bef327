"""The keys of torchtune (0.3 to 0.6.1, and main bd2a0fc) that bear on memory or on the run: what its recipes read
(recipes/*.py), and arguments of the components that sections name. A dotted name leads through sections, as in an
override on the command line."""

from __future__ import annotations

from typing import Any

from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.torchtune import parallel, training
from memlint.formats.torchtune.config import MODEL, TuneConfig
from memlint.formats.torchtune.parallel import CONTEXT, COPIES, CUSTOM, TENSOR
from memlint.formats.torchtune.training import (
    ATTENTION_PARTS,
    IN_BACKWARD,
    LENGTH,
    LOSS,
    MODE,
    OFFLOADS,
    OPTIMIZER,
    OPTION,
    OWN_LENGTH,
    PACKED,
    RANK,
    RECOMPUTES,
)

_LOSS_IN_PARTS = "torchtune.modules.loss.CEWithChunkedOutputLoss"
_CLASSES = {
    "adamw_torch_8bit": "torchao.optim.AdamW8bit",
    "adamw_torch_4bit": "torchao.optim.AdamW4bit",
    "paged_adamw_8bit": "bitsandbytes.optim.PagedAdamW8bit",
    "adamw_bnb_8bit": "bitsandbytes.optim.AdamW8bit",
    "paged_adamw_32bit": "bitsandbytes.optim.PagedAdamW",
}
_OF_ADAMW = frozenset(("torch.optim.AdamW",))
_KEPT = frozenset(("lr", "weight_decay", "betas", "eps"))  # arguments that all of these classes take


def _trains_adapter(config: TuneConfig) -> bool:
    return training.trains_adapter(config)


def _write_recomputation(change: FieldChange) -> Written | None:
    """Whole layers, or none. `ac_mode` beside it would switch both off."""
    if change.value not in ("full", "none") or change.section.get(MODE) is not None:
        return None
    if change.value == "none" and change.section.get(OFFLOADS):
        return None  # the recipes refuse offloading without it
    return {RECOMPUTES: change.value == "full"}


def _write_offload(change: FieldChange) -> Written | None:
    """Only what is checkpointed can be offloaded (0.6.1 recipes: RuntimeError)."""
    mode = change.changes.get("checkpointing.mode", change.run.checkpointing.mode)
    if change.value not in ("cpu", "none") or (change.value == "cpu" and mode != "full"):
        return None
    return {OFFLOADS: change.value == "cpu"}


def _write_optimizer(change: FieldChange) -> Written | None:
    """Another class for AdamW; arguments that it does not take are not there."""
    section = change.section.get("optimizer")
    given = section if isinstance(section, dict) else {}
    name = _CLASSES.get(str(change.value))
    known = {key for key, value in given.items() if value is not None} - {"_component_"} - _KEPT
    if name is None or given.get("_component_") not in _OF_ADAMW or not known <= {"fused"}:
        return None
    return {OPTIMIZER: name, **({"optimizer.fused": None} if "fused" in given else {})}


def _write_layerwise(change: FieldChange) -> Written | None:
    """Not with accumulation, clipping or adapters (0.6.1 recipes: RuntimeError)."""
    steps = change.changes.get("batch.gradient_accumulation_steps", change.run.batch.gradient_accumulation_steps)
    norm = change.changes.get("optimizer.max_grad_norm", change.run.optimizer.max_grad_norm)
    refused = steps != 1 or bool(norm) or change.run.method.kind != "full"
    return None if change.value and refused else {IN_BACKWARD: bool(change.value)}


def _write_length(change: FieldChange) -> Written | None:
    return {LENGTH: change.value} if isinstance(change.value, int) else None


def _write_parts(change: FieldChange) -> Written | None:
    return {LOSS: _LOSS_IN_PARTS} if change.field == "loss.parts" and change.value else None


def _write_quantized(change: FieldChange) -> Written | None:
    """torchao's NF4 under adapters, which their builder makes of its own weights."""
    wanted = change.changes.get("model.quantization.method") == "torchao" and change.run.method.kind == "lora"
    return {"model.quantize_base": True} if wanted else None


def _accumulates(change: FieldChange) -> bool:
    """With the optimizer in the backward, nothing accumulates."""
    return change.value == 1 or not change.run.optimizer.layerwise


_ROWS: tuple[Any, ...] = (
    Key(
        *(MODEL, "text", "model.name"),
        about="The function that builds the model: its architecture, and whether it has adapters (`lora_`) or 4-bit "
        "weights beside them (`qlora_`).",
        also=("model.architecture",),
        read=training.read_model,
        read_only=True,
    ),
    Key(
        *("dtype", "word", "model.weights_dtype"),
        about="The dtype of weights, gradients and optimizer states: bf16 or fp32. The recipes use no autocast.",
        also=("precision.compute", "precision.trainable_dtype"),
        read=training.read_dtype,
        read_only=True,
    ),
    Key(
        *(RANK, "whole", "method.rank", 8),
        about="The rank of LoRA adapters. The builder says whether there are any.",
        also=("method.kind", "method.adapter_dtype"),
        least=1,
        read=training.read_adapter,
        read_only=True,
    ),
    Key(
        *(ATTENTION_PARTS, "words", "method.targets"),
        about="The linear layers of attention that get an adapter: q_proj, k_proj, v_proj, output_proj.",
        read_with=RANK,
        read_only=True,
    ),
    Key(
        *("model.apply_lora_to_mlp", "flag", "", False),
        about="The linear layers of the MLP get adapters, too.",
        read_with=RANK,
    ),
    Key(
        *("model.apply_lora_to_output", "flag", "", False),
        about="The head gets an adapter, too.",
        read_with=RANK,
    ),
    Key(
        *("model.quantize_base", "flag", "model.quantization.bits", False),
        about="The layers' frozen weights are stored as torchao's NF4; embedding and head are not.",
        also=("model.quantization.method", "model.quantization.kind", "model.quantization.double_quant"),
        read_with=RANK,
        write=_write_quantized,
    ),
    Key(
        *("model.lora_alpha", "number", "method.alpha", 16),
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
        when=_trains_adapter,
        invalid="default",
    ),
    Key(
        *("model.lora_dropout", "number", "method.dropout", 0.0),
        about="Dropout before each adapter: a mask and a copy of its input.",
        when=_trains_adapter,
        invalid="default",
        read_only=True,
    ),
    Key(
        *("model.use_dora", "flag", "method.use_dora", False),
        about="DoRA: a magnitude for each row of the adapted weights, whose norm is computed in each forward.",
        when=_trains_adapter,
        read_only=True,
    ),
    Key(
        *("batch_size", "whole", "batch.micro_batch_size"),
        about="Sequences of one GPU in one forward.",
        least=1,
    ),
    Key(
        *("gradient_accumulation_steps", "whole", "batch.gradient_accumulation_steps", 1),
        about="Forwards and backwards before each update.",
        least=1,
        can_write=_accumulates,
    ),
    Key(
        *(LENGTH, "whole", "sequence.length"),
        about="Sequences are cut at this many tokens, and packed ones filled to it. Without it the longest of the data "
        "counts, which memlint does not know.",
        also=("attention.implementation",),
        least=1,
        read=training.read_length,
        write=_write_length,
    ),
    Key(
        *(OWN_LENGTH, "whole"),
        about="The same for the data sets of 0.1.",
        least=1,
        read_with=LENGTH,
    ),
    Key(*("dataset._component_", "text"), about="The data set, which may pack its samples.", read_with=LENGTH),
    Key(
        *(PACKED, "flag", "sequence.packing", False),
        about="Join samples to sequences of `tokenizer.max_seq_len` tokens, with flex attention between those of one "
        "sample.",
        also=("sequence.neat_packing", "sequence.length_is_bound"),
        read_with=LENGTH,
        read_only=True,
    ),
    Key(
        *(RECOMPUTES, "flag", "checkpointing.mode", False),
        about="Recompute each layer in the backward pass instead of keeping its activations.",
        also=("checkpointing.every",),
        read=training.read_recomputation,
        write=_write_recomputation,
    ),
    Key(
        *(OFFLOADS, "flag", "offload.activations", False),
        about="What layers leave for the backward waits in host memory. It needs `enable_activation_checkpointing`.",
        read_with=RECOMPUTES,
        write=_write_offload,
    ),
    Key(
        *(MODE, "word"),
        about="`selective` recomputes each `ac_option`-th layer. With `enable_activation_checkpointing` as well, no "
        "layer is recomputed. Only full fine-tuning on several GPUs reads it.",
        read_with=RECOMPUTES,
    ),
    Key(*(OPTION, "any"), about="Which layers `ac_mode: selective` recomputes.", read_with=RECOMPUTES),
    Key(
        *(LOSS, "text", "loss.kind"),
        about="The loss. `CEWithChunkedOutputLoss` and `LinearCrossEntropyLoss` convert the logits to fp32 in parts.",
        also=("loss.parts", "loss.logits_first", "loss.compiled", "precision.upcast_lmhead_output"),
        read=training.read_loss,
        write=_write_parts,
    ),
    Key(
        *("loss.num_output_chunks", "whole", "", 8),
        about="In how many parts the logits are scored.",
        least=1,
        read_with=LOSS,
    ),
    Key(
        *("compile", "any", "stack.compile", False),
        about="Compile each layer and the loss, which then makes no fp32 copy of the logits.",
        read=training.read_compile,
        read_only=True,
    ),
    Key(
        *(OPTIMIZER, "text", "optimizer.name"),
        about="The class of the optimizer, which is given the other keys of its section as arguments.",
        also=("optimizer.momentum", "optimizer.weight_decay", "optimizer.learning_rate", "optimizer.foreach"),
        read=training.read_optimizer,
        write=_write_optimizer,
    ),
    Key(
        *("optimizer.fused", "flag", "", False),
        about="torch's kernel that updates all parameters at once, without copies of them.",
        read_with=OPTIMIZER,
    ),
    Key(
        *(IN_BACKWARD, "flag", "optimizer.layerwise", False),
        about="Update each parameter in the backward, as soon as its gradient is there, and free that. Recipes of "
        "adapters do not read it.",
        read_with=OPTIMIZER,
        write=_write_layerwise,
    ),
    Key(
        *("clip_grad_norm", "number", "optimizer.max_grad_norm"),
        about="The largest norm of all gradients; null does not compute it.",
        read=training.read_clipping,
        read_only=True,
    ),
    Key(
        *(TENSOR, "whole", "parallelism.tensor_parallel_size", 1),
        about="GPUs that share each matrix. What a layer keeps then is not modelled: a lower bound.",
        also=("parallelism.world_size", "parallelism.gpus_per_node", "parallelism.data_parallel_size"),
        least=1,
        read=parallel.read_world,
        read_only=True,
    ),
    Key(
        *(CONTEXT, "whole", "parallelism.context_parallel_size", 1),
        about="GPUs that share each sequence (main branch).",
        least=1,
        read_with=TENSOR,
        read_only=True,
    ),
    Key(
        *(COPIES, "whole", "parallelism.fsdp.shard_group_size", 1),
        about="Copies of the model, each divided over the other GPUs (main branch).",
        also=("parallelism.fsdp.strategy",),
        least=1,
        read_with=TENSOR,
        read_only=True,
    ),
    Key(
        *(CUSTOM, "words", "parallelism.fsdp.root_holds_ends"),
        about="Modules besides the layers that FSDP divides as units of their own, such as the embedding and the head.",
        read_with=TENSOR,
        read_only=True,
    ),
    Key(
        *("fsdp_cpu_offload", "flag", "parallelism.fsdp.cpu_offload", False),
        about="FSDP keeps parameters, gradients and optimizer states in host memory.",
        read_with=TENSOR,
    ),
    Key(
        *("fsdp_reshard_after_forward", "flag", "parallelism.fsdp.reshard_after_forward", True),
        about="Free a layer's gathered parameters after its forward.",
        read_with=TENSOR,
        read_only=True,
    ),
    Key(*("device", "word", "", "cuda"), about="The kind of device. On the CPU no GPU is asked for."),
    Key(
        *("enable_fp8_training", "flag", "", False),
        about="Multiply in fp8 (main branch). It is not modelled: a lower bound.",
    ),
)
KEYS = Keys(*_ROWS)
