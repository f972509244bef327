"""The keys of an Axolotl file that bear on memory: how each is read, written back, defaulted and described.

Defaults and types are those of axolotl 0.19.0, utils/schemas/. What Axolotl hands to transformers' TrainingArguments
(core/builders/{base,causal}.py) is in `passes`. A key whose meaning depends on others has its functions in model.py,
method.py, training.py, loss.py, parallel.py or unmodelled.py, reader and writer side by side.
"""

from __future__ import annotations

from memlint.formats.axolotl.loss import LIGER_OF_DPO, read_liger_kernels, read_loss, write_liger_kernels, write_loss
from memlint.formats.axolotl.method import (
    read_adapter_dtype,
    read_fused_adapters,
    read_layers,
    read_method,
    read_rank,
    read_rank_pattern,
    read_targets,
    trains_adapters,
    write_adapter,
    write_frozen_modules,
)
from memlint.formats.axolotl.model import (
    ATTENTION_FLAGS,
    read_attention,
    read_dtypes,
    read_model,
    read_quantization,
    write_attention,
)
from memlint.formats.axolotl.parallel import degree, read_world, write_context, write_fsdp_option, write_sharded_loading
from memlint.formats.axolotl.training import (
    batch_size,
    generates,
    read_checkpointing,
    read_evaluation,
    read_evaluation_batch,
    read_generation,
    read_images,
    read_offloading,
    read_optimizer,
    read_padding,
    read_reference,
    read_stage,
    reads_rows,
    write_accumulation,
    write_checkpointing,
    write_evaluation,
    write_offloading,
    write_reference,
)
from memlint.formats.axolotl.unmodelled import (
    read_expert_backend,
    read_expert_forward,
    read_linear_experts,
    read_packed_experts,
    read_plugins,
    read_scattermoe,
    read_tiled_mlp,
    unmodelled,
    write_packed_experts,
)
from memlint.formats.keys import Key, Keys
from memlint.formats.training_arguments.keys import write_accelerator

BATCH = (
    Key(
        "micro_batch_size",
        "whole",
        "batch.micro_batch_size",
        default=1,
        least=1,
        passes="per_device_train_batch_size",
        read=batch_size("micro_batch_size"),
        about="Sequences per GPU and forward pass. Activations and logits grow with it.",
    ),
    Key(
        "gradient_accumulation_steps",
        "whole",
        "batch.gradient_accumulation_steps",
        default=1,
        least=1,
        passes="gradient_accumulation_steps",
        read=batch_size("gradient_accumulation_steps"),
        write=write_accumulation,
        about="Forward and backward passes per optimizer step. More of them cost time and no activations.",
    ),
    Key(
        "batch_size",
        "whole",
        about="The older way to say `gradient_accumulation_steps`: this number over `micro_batch_size`.",
    ),
    Key(
        *("accelerator_config", "any", "parallelism.fsdp.reduces_each_backward"),
        about="Options of accelerate. With `gradient_accumulation_kwargs: {sync_each_batch: true}` FSDP keeps sharded "
        "gradients between micro batches.",
        write=write_accelerator,
        passes="accelerator_config",
    ),
    Key(
        "auto_find_batch_size",
        "flag",
        "batch.auto_find",
        passes="auto_find_batch_size",
        read_only=True,
        about="Start again with a smaller batch after every out-of-memory error.",
    ),
)
MODEL = (
    Key(
        "base_model",
        "any",
        "model.name",
        read=read_model,
        read_only=True,
        about="The model: a name on the Hugging Face Hub or a folder. Its shape decides most of the memory.",
    ),
    Key(
        "bf16",
        "any",
        "precision.compute",
        default="auto",
        read=read_dtypes,
        read_only=True,
        about="Load and train in bfloat16, 2 bytes per weight. `auto` asks the GPU, `full` also evaluates in it.",
    ),
    Key("fp16", "flag", about="Load and train in float16, 2 bytes per weight."),
    Key(
        "tf32",
        "flag",
        "precision.tf32",
        only_if_given=True,
        invalid="ignored",
        read_only=True,
        about="Multiply fp32 matrices on tensor cores. `auto` does where the card can; it costs no memory.",
    ),
    Key("inference", "flag", default=False, about="Answer prompts with the model instead of training it."),
    Key("bfloat16", "flag", about="An older way to say `bf16: true`."),
    Key("float16", "flag", about="Load the model in float16 where no other key names a 16-bit dtype."),
    Key(
        "fp8",
        "flag",
        "precision.fp8",
        values={True: "torchao", False: "none"},
        read_only=True,
        about="Matrix products of linear layers in 8-bit floats (torchao). The weights keep their dtype.",
    ),
    Key(
        "load_in_4bit",
        "flag",
        "model.quantization.bits",
        default=False,
        also=tuple(f"model.quantization.{part}" for part in ("method", "kind", "double_quant", "storage_dtype")),
        read=read_quantization,
        write=write_adapter,
        about="Keep the frozen linear layers in 4 bits (bitsandbytes). It counts with `adapter: qlora` alone.",
    ),
    Key(
        "load_in_8bit",
        "flag",
        default=False,
        about="Keep the frozen linear layers in 8 bits (bitsandbytes). It counts with `adapter: lora` alone.",
    ),
    Key("bnb_config_kwargs", "any", about="Options of bitsandbytes: 4-bit type, double quantization, modules to skip."),
    Key(
        "model_quantization_config_kwargs",
        "any",
        about="Options for a checkpoint that is stored quantized. `dequantize: true` unpacks it while it loads.",
    ),
    Key(
        "trust_remote_code",
        "flag",
        about="Run the model's own code. Its experts are linear layers that bitsandbytes can pack.",
    ),
    Key(
        "attn_implementation",
        "any",
        "attention.implementation",
        read=read_attention,
        write=write_attention,
        about="The attention kernel. Flash and SDPA kernels do not keep the matrix of scores, `eager` does.",
    ),
    *(
        Key(flag, "flag", about=f"The way before Axolotl 0.12 to say `attn_implementation: {name}`.")
        for flag, name in ATTENTION_FLAGS
    ),
    Key(
        "reinit_weights",
        "flag",
        "model.from_scratch",
        default=False,
        read_only=True,
        about="Start from random weights of the model's shape.",
    ),
)
METHOD = (
    Key(
        "freeze_mm_modules",
        "flag",
        "method.freeze_vision_tower",
        default=False,
        also=("method.freeze_multi_modal_projector",),
        write=write_frozen_modules,
        about="Freeze the vision tower and the projector: no gradients and no optimizer states for them.",
    ),
    Key(
        "adapter",
        "word",
        "method.kind",
        read=read_method,
        write=write_adapter,
        about="`lora` or `qlora` trains small adapters over a frozen model. Without it the whole model trains.",
    ),
    Key("unfrozen_parameters", "words", about="Train only the parameters whose names match one of these patterns."),
    Key("lora_model_dir", "any", about="Start from the adapter in this folder, which brings its own rank."),
    Key(
        "lora_r",
        "whole",
        "method.rank",
        least=1,
        when=trains_adapters,
        read=read_rank,
        about="Rank of the adapters. Their weights, gradients and optimizer states grow with it.",
    ),
    Key(
        "lora_alpha",
        "whole",
        "method.alpha",
        least=0,
        when=trains_adapters,
        about="Scale of the adapters, over their rank. It costs no memory.",
    ),
    Key(
        "lora_dropout",
        "number",
        "method.dropout",
        default=0.0,
        when=trains_adapters,
        read_only=True,
        about="Dropout before the adapters. Above 0 each keeps a mask and a copy of its input.",
    ),
    Key(
        "lora_target_modules",
        "any",
        "method.targets",
        when=trains_adapters,
        read=read_targets,
        write=write_adapter,
        about="The modules that get adapters: their last names, or one pattern over whole names.",
    ),
    Key("lora_target_linear", "flag", about="Put adapters on every linear layer."),
    Key(
        "lora_modules_to_save",
        "words",
        "method.modules_to_save",
        when=trains_adapters,
        read_only=True,
        about="Modules that train whole beside the adapters, often embeddings and head. Each gets a trainable copy.",
    ),
    Key(
        "lora_target_parameters",
        "words",
        "method.target_parameters",
        when=trains_adapters,
        read_only=True,
        about="Parameters that get adapters by their own names, such as experts that are no linear layers.",
    ),
    Key(
        "peft_use_dora",
        "flag",
        "method.use_dora",
        when=trains_adapters,
        default=False,
        read_only=True,
        about="DoRA: adapters with a trained magnitude. The forward pass keeps more than LoRA's.",
    ),
    Key(
        "peft_use_rslora",
        "flag",
        "method.use_rslora",
        when=trains_adapters,
        default=False,
        read_only=True,
        about="Scale adapters by the square root of their rank. It costs no memory.",
    ),
    Key(
        "peft_layers_to_transform",
        "any",
        "method.layers_to_transform",
        when=trains_adapters,
        read=read_layers,
        read_only=True,
        about="Numbers of the layers that get adapters. The others get none.",
    ),
    Key(
        "lora_rank_pattern",
        "any",
        "method.rank_pattern",
        when=trains_adapters,
        read=read_rank_pattern,
        read_only=True,
        about="Ranks of single modules, where they differ from `lora_r`.",
    ),
    Key(
        "peft_autocast_adapter_dtype",
        "flag",
        "method.adapter_dtype",
        when=trains_adapters,
        read=read_adapter_dtype,
        read_only=True,
        about="`false` keeps adapters in the model's dtype; otherwise peft makes them float32.",
    ),
    Key("peft", "any", about="Options of peft. With `loftq_config` Axolotl does not prepare the model for few bits."),
    Key(
        "lora_qkv_kernel",
        "flag",
        "method.fused_adapters",
        when=trains_adapters,
        read=read_fused_adapters,
        read_only=True,
        about="Axolotl's fused kernel for adapters on queries, keys and values. It keeps less.",
    ),
    Key("lora_o_kernel", "flag", about="Axolotl's fused kernel for adapters on the output projection of attention."),
    Key("lora_mlp_kernel", "flag", about="Axolotl's fused kernel for adapters on the MLP. It keeps fewer activations."),
    Key("nvfp4_merge_aware", "flag", about="Adapters that merge into NVFP4 weights. The fused kernels stay off."),
    Key("lora_embedding_kernel", "flag", about="Axolotl's fused kernel for adapters on embeddings."),
)
STAGE = (
    Key(
        "rl",
        "word",
        "method.stage",
        read=read_stage,
        read_only=True,
        about="Train on preferences or rewards: dpo, ipo, kto, orpo, simpo, grpo or gdpo. Some need a reference model.",
    ),
    Key("reward_model", "flag", about="Train a reward model on pairs: two sequences per sample and a score head."),
    Key("pretraining_dataset", "any", about="Pre-train on streamed text."),
    Key(
        "rl_adapter_ref_model",
        "flag",
        "method.reference_model",
        read=read_reference,
        write=write_reference,
        about="Load the reference model a second time, where adapters could simply be switched off for it.",
    ),
    Key(
        "rl_beta", "number", about="Weight of the distance to the reference model. At 0 GRPO keeps no reference model."
    ),
    Key(
        "trl",
        "any",
        "sequence.max_new_tokens",
        when=generates,
        read=read_generation,
        read_only=True,
        about="Options of GRPO: generations per prompt, their length, and whether vLLM makes them.",
    ),
    Key("vllm", "any", about="Options of vLLM. `gpu_memory_utilization` is its share of the GPU where it runs on it."),
)
SEQUENCE = (
    Key(
        "sequence_len",
        "whole",
        "sequence.length",
        default=512,
        least=1,
        when=reads_rows,
        about="Tokens per sequence at most. Activations and logits grow with it.",
    ),
    Key(
        "sample_packing",
        "flag",
        "sequence.packing",
        also=("sequence.neat_packing",),
        default=False,
        when=reads_rows,
        read_only=True,
        about="Put several samples into one sequence, so that each one is `sequence_len` long.",
    ),
    Key(
        "pad_to_sequence_len",
        "flag",
        "sequence.length_is_bound",
        when=reads_rows,
        read=read_padding,
        read_only=True,
        about="Pad every sequence to `sequence_len`. Memory is the same at every step then.",
    ),
    Key(
        "processor_type",
        "text",
        "sequence.images",
        read=read_images,
        read_only=True,
        about="The processor of images, such as AutoProcessor. Without it, or with packing, samples are texts alone.",
    ),
)
CHECKPOINTING = (
    Key(
        "gradient_checkpointing",
        "any",
        "checkpointing.mode",
        default=False,
        read=read_checkpointing,
        write=write_checkpointing,
        about="Recompute each layer in the backward pass instead of keeping its activations. `offload` also moves what "
        "is kept to host memory.",
    ),
    Key("gradient_checkpointing_kwargs", "any", about="Options of checkpointing, such as `use_reentrant`."),
    Key("selective_checkpointing", "any", about="Keep what is costly to recompute, and recompute the rest."),
    Key(
        "activation_offloading",
        "any",
        "checkpointing.offload",
        default=False,
        read=read_offloading,
        write=write_offloading,
        about="Move activations to host memory until the backward pass. `hidden_states` moves only the layers' inputs.",
    ),
)
LOSS = (
    Key(
        "liger_fused_linear_cross_entropy",
        "flag",
        "loss.kind",
        read=read_loss,
        write=write_loss,
        about="Liger's loss: head and cross entropy in chunks, so that the logits are never whole. Needs its plug-in.",
    ),
    Key("liger_cross_entropy", "flag", about="Liger's cross entropy, in place on the logits. Needs its plug-in."),
    Key(
        "cut_cross_entropy",
        "flag",
        default=True,
        about="A loss that never makes the logits. With its plug-in it is on unless this key is false.",
    ),
    Key(
        "liger_rms_norm",
        "flag",
        "loss.liger_kernels",
        read=read_liger_kernels,
        write=write_liger_kernels,
        about="Liger's RMSNorm, which keeps its input in place of a float32 copy. Needs its plug-in.",
    ),
    Key("liger_glu_activation", "flag", about="Liger's SwiGLU or GeGLU, which keeps fewer tensors. Needs its plug-in."),
    Key("liger_swiglu", "flag", about="The older name of `liger_glu_activation`."),
    Key("liger_layer_norm", "flag", about="Liger's LayerNorm. Needs its plug-in."),
    Key("liger_rope", "flag", about="Liger's rotary embedding. Needs its plug-in."),
    Key(
        LIGER_OF_DPO,
        "flag",
        about="Liger's fused DPO loss, which never makes the logits, and its kernels in the model. Only for `rl: dpo`.",
    ),
    Key(
        "chunked_cross_entropy",
        "flag",
        "loss.in_chunks",
        default=False,
        read_only=True,
        about="Cross entropy over chunks of the logits, which are whole all the same.",
    ),
)
OPTIMIZER = (
    Key(
        "optimizer",
        "word",
        "optimizer.name",
        default="adamw_torch_fused",
        passes="optim",
        read=read_optimizer,
        about="The optimizer. AdamW keeps two numbers per trainable parameter, 8-bit ones a quarter of that.",
    ),
    Key(
        "optim_args",
        "any",
        passes="optim_args",
        about="Options of the optimizer. `rank` and `update_proj_gap` size GaLore's and APOLLO's states.",
    ),
    Key(
        "optim_target_modules",
        "any",
        "optimizer.targets",
        passes="optim_target_modules",
        read_only=True,
        about="The modules that a low-rank optimizer projects.",
    ),
    Key(
        "qgalore_rank",
        "whole",
        "optimizer.rank",
        default=256,
        only_if_given=True,
        read_only=True,
        about="Rank of Q-GaLore's projection. Its states grow with it.",
    ),
    Key("qgalore_update_proj_gap", "whole", default=200, about="Steps between two new projections of Q-GaLore."),
    Key(
        "max_grad_norm",
        "number",
        "optimizer.max_grad_norm",
        passes="max_grad_norm",
        about="Clip gradients to this norm. The norm is taken over all gradients at once.",
    ),
    Key(
        "weight_decay",
        "number",
        "optimizer.weight_decay",
        default=0.0,
        passes="weight_decay",
        read_only=True,
        about="Weight decay. It costs no memory.",
    ),
    Key(
        *("learning_rate", "number", "optimizer.learning_rate"),
        passes="learning_rate",
        about="Learning rate. It costs no memory.",
        invalid="ignored",
    ),
    *(
        Key(name, "number", passes=name, about="A constant of Adam. It costs no memory.")
        for name in ("adam_beta1", "adam_beta2", "adam_epsilon")
    ),
)
EVALUATION = (
    Key(
        "val_set_size",
        "number",
        "evaluation.enabled",
        default=0.0,
        read=read_evaluation,
        write=write_evaluation,
        about="Samples to hold back for evaluation: a number, or a share below 1. 0 evaluates never.",
    ),
    Key("test_datasets", "any", about="Data sets to evaluate on, in place of `val_set_size`."),
    Key(
        "eval_batch_size",
        "whole",
        "evaluation.batch_size",
        least=1,
        passes="per_device_eval_batch_size",
        read=read_evaluation_batch,
        about="Sequences per GPU while evaluating; `micro_batch_size` where it is not given.",
    ),
    Key(
        "eval_strategy",
        "word",
        older=("evaluation_strategy",),
        passes="eval_strategy",
        about="When to evaluate: no, steps or epoch.",
    ),
    Key("eval_steps", "number", about="Steps between two evaluations, or a share of the training below 1."),
    Key("evals_per_epoch", "number", about="Evaluations in each epoch."),
    Key("num_epochs", "number", default=1.0, about="Passes over the data. They cost no memory."),
)
SAVING = (
    Key(
        "save_only_model",
        "flag",
        "saving.only_model",
        default=False,
        passes="save_only_model",
        about="Save weights without optimizer states. The training cannot be resumed from them.",
    ),
    Key("save_strategy", "word", passes="save_strategy", about="When to save: no, steps, epoch or best."),
    Key("save_steps", "number", about="Steps between two checkpoints."),
)
STACK = (
    Key(
        "torch_compile",
        "any",
        "stack.compile",
        passes="torch_compile",
        read_only=True,
        about="Compile the model. Fused kernels keep other activations than the model's own code.",
    ),
    Key(
        "torch_compile_backend",
        "any",
        passes="torch_compile_backend",
        about="The backend of torch.compile, which it turns on.",
    ),
    Key(
        "torch_compile_mode", "any", passes="torch_compile_mode", about="The mode of torch.compile, which it turns on."
    ),
    Key(
        "torch_empty_cache_steps",
        "whole",
        least=1,
        passes="torch_empty_cache_steps",
        about="Give the allocator's unused memory back every so many steps. It costs time.",
    ),
    Key(
        "ddp_bucket_cap_mb",
        "number",
        passes="ddp_bucket_cap_mb",
        about="Size of the buckets in which DDP sums gradients, in MiB.",
    ),
)
_CONTEXT = "context_parallel_size"
PARALLEL = (
    Key(
        "dp_shard_size",
        "whole",
        "parallelism.world_size",
        read=read_world,
        read_only=True,
        about="GPUs over which FSDP shards the model. With the other degrees it says how many GPUs train.",
    ),
    Key("dp_replicate_size", "whole", about="Copies of the sharded model, each on its own group of GPUs."),
    *(
        Key(
            *(name, "whole", field, default, about),
            read=degree(name, field),
            read_only=name != _CONTEXT,
            write=write_context if name == _CONTEXT else None,
        )
        for name, field, default, about in (
            (
                "tensor_parallel_size",
                "parallelism.tensor_parallel_size",
                None,
                "GPUs that share each weight matrix. Each holds a part of it and of its activations.",
            ),
            (
                _CONTEXT,
                "parallelism.context_parallel_size",
                None,
                "GPUs that share each sequence. Each holds a part of its activations.",
            ),
            (
                "sequence_parallel_degree",
                "parallelism.context_parallel_size",
                None,
                "The older name of `context_parallel_size`.",
            ),
            (
                "expert_parallel_size",
                "parallelism.expert_parallel_size",
                1,
                "GPUs that share the experts of a mixture. Each holds some of them.",
            ),
        )
    ),
    Key("deepspeed", "any", passes="deepspeed", about="A DeepSpeed configuration: a file's name or a mapping."),
    Key("fsdp", "words", about="FSDP's older options. Any of them turns FSDP on."),
    Key("fsdp_config", "any", about="FSDP's options. The key alone turns FSDP on."),
    Key(
        "fsdp_version",
        "whole",
        about="1 or 2, which shards each parameter by itself: 1 unless the file says 2, always 2 from 0.20 on.",
    ),
    Key(
        "fsdp_config.offload_params",
        "flag",
        "parallelism.fsdp.cpu_offload",
        write_only=True,
        write=write_fsdp_option,
        about="Keep FSDP's shards, gradients and optimizer states in host memory.",
    ),
    Key(
        "fsdp_config.reshard_after_forward",
        "flag",
        "parallelism.fsdp.reshard_after_forward",
        write_only=True,
        write=write_fsdp_option,
        about="Free each layer's gathered weights after its forward pass and gather them again in the backward pass.",
    ),
    Key(
        *("qlora_sharded_model_loading", "flag", "parallelism.fsdp.loads_packed_on_host", False),
        write=write_sharded_loading,
        about="Under FSDP, quantise one layer at a time while loading: no card holds the whole packed model.",
    ),
    Key("ddp_find_unused_parameters", "flag", about="Let DDP look for parameters without gradients at every step."),
)


def _uncounted(name: str, reason: str, default: bool | None = None, adds: bool = False) -> Key:
    """A key that turns on a feature whose memory is not modelled. `adds`: it leaves the model state as it is."""
    about = f"{reason[0].upper()}{reason[1:]}. Its memory has not been counted: memlint gives no figure with it."
    return Key(
        name,
        "any",
        "stack.unmodelled",
        default=default,
        read=unmodelled(name, reason, adds),
        read_only=True,
        about=about,
    )


FEATURES = (
    _uncounted("layer_offloading", "layers come and go between host and GPU", default=False),
    _uncounted("qat", "fake quantisation keeps copies of weights and activations", adds=True),
    _uncounted("use_onebitllms", "BitNet's linear layers"),
    _uncounted("relora", "ReLoRA merges and resets adapters while it trains", adds=True),
    _uncounted("relora_steps", "ReLoRA merges and resets adapters while it trains", adds=True),
    Key(
        "use_scattermoe",
        "flag",
        "stack.expert_kernel",
        read=read_scattermoe,
        read_only=True,
        about="Run stacked experts in ScatterMoE's kernels. Takes effect with the kernels plug-in.",
    ),
    Key(
        "expert_backend",
        "word",
        "stack.expert_kernel",
        also=("stack.unmodelled",),
        read=read_expert_backend,
        read_only=True,
        about="What runs stacked experts: scattermoe, sonicmoe (no figure), eager or builtin.",
    ),
    Key(
        "experts_implementation",
        "word",
        "stack.unmodelled",
        read=read_expert_forward,
        read_only=True,
        about="How stacked experts run: `grouped_mm` by default. `eager` and `batched_mm` have no figure.",
    ),
    _uncounted("use_sonicmoe", "SonicMoE's expert kernels", adds=True),
    _uncounted("lisa_n_layers", "LISA picks other layers every few steps"),
    _uncounted("ebft", "energy-based fine-tuning generates and embeds beside the step", adds=True),
    Key(
        "process_reward_model",
        "flag",
        "method.drops_language_head",
        default=False,
        only_if_given=True,
        read_only=True,
        about="Train a classifier of each token (AutoModelForTokenClassification) on the steps of answers.",
    ),
    _uncounted("peft_layer_replication", "layers are used more than once, each with adapters of its own", adds=True),
    _uncounted("peft_trainable_token_indices", "rows of the embedding train beside the adapters", adds=True),
    _uncounted("flash_optimum", "BetterTransformer's layers", adds=True),
    _uncounted("max_memory", "layers are spread over devices by hand"),
    _uncounted("gpu_memory_limit", "layers are spread over devices by hand"),
    Key(
        "plugins",
        "any",
        "stack.unmodelled",
        read=read_plugins,
        read_only=True,
        about="Plug-ins by the path of their class. The keys of a plug-in count only where it is listed.",
    ),
    Key(
        "tiled_mlp",
        "flag",
        "checkpointing.mlp_tiles",
        read=read_tiled_mlp,
        read_only=True,
        about="Run the MLP over slices of the sequence, so that only one slice's activations exist at a time.",
    ),
    Key("tiled_mlp_num_shards", "whole", about="Number of slices of `tiled_mlp`."),
    Key(
        "llama4_linearized_experts",
        "flag",
        "stack.unmodelled",
        read=read_linear_experts,
        read_only=True,
        about="Make Llama 4's experts linear layers, which bitsandbytes can pack.",
    ),
    Key(
        "quantize_moe_experts",
        "flag",
        "model.quantization.experts_on_load",
        default=False,
        read=read_packed_experts,
        write=write_packed_experts,
        about="Pack a mixture's experts in few bits while they load. One layer's are unpacked at a time.",
    ),
)

# Read in this order. The launch file that lies beside the config is read after the first table and gives way to the
# second; the third asks what the engine made of the run.
RUN_KEYS = Keys(
    *BATCH, *MODEL, *METHOD, *STAGE, *SEQUENCE, *CHECKPOINTING, *LOSS, *OPTIMIZER, *EVALUATION, *SAVING, *STACK
)
PARALLEL_KEYS = Keys(*PARALLEL)
FEATURE_KEYS = Keys(*FEATURES)
KEYS = Keys(*RUN_KEYS, *PARALLEL_KEYS, *FEATURE_KEYS)
