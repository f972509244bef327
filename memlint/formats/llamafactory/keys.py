"""LLaMA-Factory's keys, each written once: how it is read, written back, defaulted and described.

Defaults are those of LLaMA-Factory 0.9.5 (src/llamafactory/hparams/*.py). The rows stand in the order in which they
are read: a later one has the last word about a field. Keys of the v1 layout are in keys_v1.py.
"""

from __future__ import annotations

from memlint.formats.keys import Key, Keys, Write
from memlint.formats.llamafactory.config import finetunes_with, trains
from memlint.formats.llamafactory.loss import read_loss, read_preference, write_loss
from memlint.formats.llamafactory.method import (
    freezes,
    has_reward_model,
    read_alpha,
    read_dropout,
    read_frozen_part,
    read_kind,
    read_llama_pro,
    read_reference,
    read_reward_model,
    read_saved_modules,
    read_stage,
    write_kind,
    write_reference,
)
from memlint.formats.llamafactory.model import (
    read_added_tokens,
    read_model,
    read_quantization,
    write_quantization,
)
from memlint.formats.llamafactory.names import names, targets
from memlint.formats.llamafactory.parallel import (
    on_hyper_parallel,
    on_megatron,
    read_hyper_parallel,
    read_megatron,
    read_recomputation,
    read_world,
    write_recomputation,
)
from memlint.formats.llamafactory.precision import (
    read_fp8,
    read_precision,
    write_mixed_precision,
    write_pure_bf16,
)
from memlint.formats.llamafactory.templates import read_images
from memlint.formats.llamafactory.training import (
    ATTENTION,
    is_switched_on,
    read_attention,
    read_beams,
    read_checkpointing,
    read_inference_dtype,
    read_lora_experts,
    read_low_rank,
    read_max_new_tokens,
    read_packing,
    read_pixels,
    read_placement_rules,
    read_samples,
    read_server,
    read_server_config,
    read_shift_attention,
    served_by,
    uses_optimizer,
    write_attention,
    write_checkpointing,
    write_evaluation,
    write_offloaded_checkpoints,
    write_optimizer,
)
from memlint.formats.training_arguments import KEYS as TRAINING_ARGUMENTS
from memlint.formats.training_arguments.keys import write_accelerator

_lora = finetunes_with("lora")
_oft = finetunes_with("oft")
_adapter = finetunes_with("lora", "oft")
_bits = tuple(f"model.quantization.{part}" for part in ("method", "bits", "kind", "double_quant", "storage_dtype"))
_mixed = ("precision.autocast", "precision.outputs_to_fp32")

_MODEL = (
    Key(
        *("use_unsloth", "flag", "stack.use_unsloth", False),
        about="Load and train the model with Unsloth: its own attention, loss and checkpointing.",
        read_only=True,
    ),
    Key(
        *("use_kt", "flag", "stack.use_ktransformers", False),
        about="Train with KTransformers: experts are computed by the CPU, their weights stay in host memory.",
        read_only=True,
    ),
    Key(
        *("kt_optimize_rule", "text", "stack.unmodelled", ""),
        about="KTransformers' file of rules: which module is on which card (until 0.9.4).",
        read=read_placement_rules,
        read_only=True,
    ),
    Key(
        *("kt_use_lora_experts", "flag", "stack.unmodelled", False),
        about="Further experts on the card, which train beside those on the CPU.",
        read=read_lora_experts,
        read_only=True,
    ),
    Key(
        *("model_name_or_path", "text", "model.name", None),
        about="The model. Its shape decides about weights, gradients, optimizer states and activations.",
        read=read_model,
        read_only=True,
    ),
    Key(
        *("quantization_bit", "whole", "model.quantization", None),
        about="Quantise the frozen weights to so many bits as they load. Only LoRA and OFT can train upon them.",
        also=_bits,
        read=read_quantization,
        write=write_quantization,
    ),
    Key(
        *("quantization_method", "word", "", "bnb"),
        about="What quantises on load: bitsandbytes (4 or 8 bits), HQQ or EETQ.",
        read_with="quantization_bit",
    ),
    Key(
        *("quantization_type", "word", "", "nf4"),
        about="The data type of 4-bit weights in bitsandbytes. Both take the same memory.",
        read_with="quantization_bit",
    ),
    Key(
        *("double_quantization", "flag", "", True),
        about="Quantise the scales of 4-bit weights as well: some 0.4 bits a weight less.",
        read_with="quantization_bit",
    ),
    Key(
        *("train_from_scratch", "flag", "model.from_scratch", False),
        about="Start from random weights. The model takes the same memory.",
        read_only=True,
    ),
    Key(
        *("add_tokens", "any", "model.new_special_tokens", None),
        about="Tokens to add to the vocabulary. Embeddings and logits grow with them.",
        read=read_added_tokens,
        read_only=True,
    ),
    Key(
        *("add_special_tokens", "any", "", None),
        about="Special tokens to add to the vocabulary. Embeddings and logits grow with them.",
        read_with="add_tokens",
    ),
    Key(
        *("new_special_tokens", "any", "", None),
        about="The name of `add_special_tokens` up to 0.9.2.",
        read_with="add_tokens",
    ),
)

_METHOD = (
    Key(
        *("stage", "word", "method.stage", "sft"),
        about="The training stage. Stages dpo, kto and ppo may load a reference model, rm and ppo add a value head.",
        read=read_stage,
        read_only=True,
    ),
    Key(
        *("finetuning_type", "word", "method.kind", "lora"),
        about="What trains: an adapter (lora, oft), a few layers (freeze) or everything (full). "
        "Gradients and optimizer states exist for what trains alone.",
        read=read_kind,
        write=write_kind,
    ),
    targets(
        *("lora_target", "method.targets"),
        about="Modules that get a LoRA adapter; `all` is every linear layer but the head.",
        when=_lora,
    ),
    targets(
        *("oft_target", "method.targets"),
        about="Modules that get an OFT adapter; `all` is every linear layer but the head.",
        when=_oft,
        read_only=True,
    ),
    Key(
        *("lora_rank", "whole", "method.rank", 8),
        about="Rank of the LoRA adapters. Their weights, gradients and optimizer states grow with it.",
        least=1,
        when=_lora,
    ),
    Key(
        *("lora_alpha", "whole", "method.alpha", None),
        about="Scale of the LoRA adapters, twice the rank where it is not given. It takes no memory.",
        when=_lora,
        read=read_alpha,
    ),
    Key(
        *("lora_dropout", "number", "method.dropout", 0.0),
        about="Dropout in front of the LoRA adapters. Above 0 each adapter keeps a mask and its input. "
        "The trainers of stages dpo and kto switch it off.",
        when=_lora,
        read=read_dropout,
    ),
    Key(
        *("use_dora", "flag", "method.use_dora", False),
        about="Weight-decomposed LoRA: each forward builds the adapted weights whole and keeps more for the backward.",
        when=_lora,
    ),
    Key(
        *("use_rslora", "flag", "method.use_rslora", False),
        about="Scale LoRA by the square root of its rank. It takes no memory.",
        when=_lora,
    ),
    Key(
        *("pissa_init", "flag", "", False),
        about="Start LoRA from the weights' largest singular vectors. A decomposition runs when training starts.",
    ),
    Key(
        *("pissa_iter", "whole", "", 16),
        about="Iterations of PiSSA's fast decomposition; -1 is an exact one.",
    ),
    Key(
        *("oft_rank", "whole", "method.rank", 0),
        about="Number of blocks of the OFT adapters; 0 leaves it to `oft_block_size`.",
        when=_oft,
        read_only=True,
    ),
    Key(
        *("oft_block_size", "whole", "method.oft_block_size", 32),
        about="Size of the blocks of the OFT adapters. Their weights grow with it.",
        when=_oft,
        read_only=True,
    ),
    Key(
        *("module_dropout", "number", "method.dropout", 0.0),
        about="Share of OFT adapters that a step leaves out.",
        when=_oft,
        read_only=True,
    ),
    Key(
        *("additional_target", "any", "method.modules_to_save", None),
        about="Modules that train whole beside the adapters, each as a copy with its gradients and optimizer states.",
        when=_adapter,
        read=read_saved_modules,
        read_only=True,
    ),
    Key(
        *("resize_vocab", "flag", "", False),
        about="Resize the vocabulary to the tokenizer's. With adapters both embeddings train then.",
        read_with="additional_target",
    ),
    Key(
        *("freeze_trainable_layers", "whole", "method.freeze_trainable_layers", 2),
        about="How many layers train: the last ones, or with a negative number the first ones.",
        invalid="default",
        when=freezes,
    ),
    names(
        *("freeze_trainable_modules", "method.freeze_trainable_modules"),
        about="Modules of those layers that train.",
        when=freezes,
        empty=("all",),
    ),
    names(
        *("freeze_extra_modules", "method.freeze_extra_modules"),
        about="Modules outside of the layers that train as well.",
        when=freezes,
    ),
    Key(
        *("use_llama_pro", "flag", "method.use_llama_pro", False),
        about="Train the expanded blocks of LLaMA Pro alone.",
        when=freezes,
        read=read_llama_pro,
        read_only=True,
    ),
    Key(
        *("freeze_vision_tower", "flag", "method.freeze_vision_tower", True),
        about="Leave the vision tower as it is: no gradients, no optimizer states, no activations kept for it.",
        when=trains,
        read=read_frozen_part("freeze_vision_tower"),
    ),
    Key(
        *("freeze_multi_modal_projector", "flag", "method.freeze_multi_modal_projector", True),
        about="Leave the projector between vision tower and language model as it is.",
        when=trains,
        read=read_frozen_part("freeze_multi_modal_projector"),
    ),
    Key(
        *("freeze_language_model", "flag", "method.freeze_language_model", False),
        about="Leave the language model as it is and train the other parts.",
        when=trains,
        read=read_frozen_part("freeze_language_model"),
    ),
    Key(
        *("adapter_name_or_path", "any"),
        about="Adapters to start from. They are merged into the weights, except one that training resumes.",
    ),
    Key(
        *("ref_model", "text", "method.reference_model", None),
        about="The reference model of stages dpo, kto and ppo: more weights. Without it LoRA shares the base, "
        "everything else loads the model twice.",
        when=trains,
        read=read_reference,
        write=write_reference,
    ),
    Key(
        *("ref_model_quantization_bit", "whole", "", None),
        about="Bits of the reference model's weights.",
        read_with="ref_model",
    ),
    Key(
        *("reward_model_type", "word", "method.reward_model", "lora"),
        about="The reward model of stage ppo: an adapter on the same base (lora), a model (full) or a server (api).",
        when=has_reward_model,
        read=read_reward_model,
        read_only=True,
    ),
    Key(
        *("reward_model", "text", "", None),
        about="The reward model of stage ppo. With `reward_model_type: full` it is a second set of weights.",
        read_with="reward_model_type",
    ),
    Key(
        *("reward_model_quantization_bit", "whole", "", None),
        about="Bits of the reward model's weights.",
        read_with="reward_model_type",
    ),
)

_PRECISION = (
    Key(
        *("pure_bf16", "flag", "precision.trainable_dtype", False),
        about="Train in bfloat16 without autocast: parameters, gradients and optimizer states take 2 bytes, not 4.",
        also=(*_mixed, "method.adapter_dtype"),
        read=read_precision,
        write=write_pure_bf16,
    ),
    Key(
        *("upcast_layernorm", "flag", "precision.upcast_layernorm", False),
        about="Turn the norms' weights into fp32.",
    ),
    Key(
        *("upcast_lmhead_output", "flag", "precision.upcast_lmhead_output", False),
        about="Turn the logits into fp32: a copy at twice the size.",
    ),
    Key(
        *("fp8", "any", "precision.fp8", False),
        about="Compute the linear layers in FP8. The weights keep their dtype.",
        read=read_fp8,
        read_only=True,
    ),
    Key(
        *("fp8_backend", "word", "", "auto"),
        about="The library that computes in FP8: torchao, te (Transformer Engine) or msamp.",
        read_with="fp8",
    ),
)

_SEQUENCE = (
    Key(
        *("cutoff_len", "whole", "sequence.length", 2048),
        earlier_default=((0, 9, 1), 1024),  # 0.9.0 and 0.9.1 hparams/data_args.py
        about="The longest sequence, in tokens. Activations and logits grow with it.",
        least=1,
    ),
    Key(
        *("packing", "flag", "sequence.packing", None),
        about="Fill each sequence up to `cutoff_len` with several samples. It is on in stage pt where nothing is said.",
        read=read_packing,
    ),
    Key(
        *("neat_packing", "flag", "sequence.neat_packing", False),
        about="Pack, and keep the samples of a sequence from attending to each other.",
    ),
    Key(
        *("rope_scaling", "word", "sequence.rope_scaling", None),
        about="How positions beyond the model's context are reached. It takes no memory.",
        read_only=True,
    ),
    Key(
        *("shift_attn", "flag", "sequence.shift_attention", False),
        about="LongLoRA's shifted sparse attention, for Llama alone.",
        read=read_shift_attention,
        read_only=True,
    ),
    Key(
        *("template", "text", "sequence.images", None),
        about="The chat template. Only some templates take images: with another one, no sample has any.",
        also=("sequence.always_has_images",),
        read=read_images,
        read_only=True,
    ),
    Key(
        *("image_max_pixels", "whole", "sequence.image_max_pixels", 768 * 768),
        about="Larger images are resized to so many pixels: fewer tokens, smaller activations of the vision tower.",
        least=1,
        read=read_pixels("image_max_pixels", "sequence.image_max_pixels"),
    ),
    Key(
        *("video_max_pixels", "whole", "sequence.video_max_pixels", 256 * 256),
        about="Larger frames of a video are resized to so many pixels.",
        read=read_pixels("video_max_pixels", "sequence.video_max_pixels"),
    ),
    Key(
        *("video_maxlen", "whole", "sequence.video_max_length", 128),
        earlier_default=((0, 9, 2), 64),  # 0.9.1 and 0.9.2 hparams/model_args.py
        about="How many frames of a video are used at most.",
        read=read_pixels("video_maxlen", "sequence.video_max_length"),
    ),
    Key(
        *("max_new_tokens", "whole", "sequence.max_new_tokens", 1024),
        about="How many tokens are generated at most; the KV cache grows with them.",
        also=("evaluation.max_new_tokens",),
        read=read_max_new_tokens,
        read_only=True,
    ),
)

_TRAINING = (
    Key(
        *("flash_attn", "word", "attention.implementation", "auto"),
        about="The attention kernel. `disabled` is eager attention, which keeps a score for each pair of tokens.",
        values=ATTENTION,
        read=read_attention,
        write=write_attention,
    ),
    Key(
        *("disable_gradient_checkpointing", "flag", "checkpointing.mode", False),
        about="Keep all activations for the backward pass. Without it each layer's are recomputed from its input.",
        values={True: "none", False: "full"},
        read=read_checkpointing,
        write=write_checkpointing,
    ),
    Key(
        *("use_unsloth_gc", "flag", "checkpointing.offload", False),
        about="Unsloth's checkpointing: the layers' inputs wait for the backward pass in host memory.",
        read_with="disable_gradient_checkpointing",
        write=write_offloaded_checkpoints,
    ),
    Key(
        *("use_reentrant_gc", "flag", "checkpointing.reentrant", True),
        about="The kind of torch's checkpointing. The reentrant kind keeps a layer's input and nothing else.",
        read_with="disable_gradient_checkpointing",
    ),
    Key(
        *("enable_liger_kernel", "flag", "loss.kind", False),
        about="Liger's fused kernels. In stages pt and sft the loss is computed in chunks, so that no logits are kept.",
        also=("loss.liger_kernels",),
        read=read_loss,
        write=write_loss,
    ),
    *(
        Key(key, "flag", "", False, f"{name}: computed from the logits, so Liger's fused loss is off.", read_with=liger)
        for liger in ("enable_liger_kernel",)
        for key, name in (
            ("use_dft_loss", "Dynamic fine-tuning's loss"),
            ("use_eaft_loss", "Entropy-adaptive fine-tuning's loss"),
            ("use_asft_loss", "Anchored supervised fine-tuning's loss, which needs a reference model"),
        )
    ),
    Key(
        *("pref_loss", "word", "loss.preference", "sigmoid"),
        about="The loss of stage dpo. orpo and simpo need no reference model.",
        when=trains,
        read=read_preference,
        read_only=True,
    ),
    Key(
        *("use_galore", "flag", "optimizer.name", False),
        about="Optimizer states of a low rank (GaLore): gradients are projected before they reach the optimizer.",
        when=uses_optimizer("use_galore"),
        read=read_low_rank("use_galore"),
        read_only=True,
    ),
    Key(
        *("use_apollo", "flag", "optimizer.name", False),
        about="Optimizer states of a low rank (APOLLO): they give each channel or tensor its learning rate.",
        when=uses_optimizer("use_apollo"),
        read=read_low_rank("use_apollo"),
        read_only=True,
    ),
)


def _low_rank(name: str, title: str) -> tuple[Key, ...]:
    """The keys of GaLore and of APOLLO, which have the same ones."""
    runs = uses_optimizer(f"use_{name}")
    return (
        Key(
            *(f"{name}_rank", "whole", "optimizer.rank", 16),
            about=f"Rank of {title}'s optimizer states.",
            when=runs,
            can_write=is_switched_on(f"use_{name}"),
        ),
        Key(
            *(f"{name}_update_interval", "whole", "", 200),
            about=f"Steps between two projections of {title}.",
        ),
        targets(f"{name}_target", "optimizer.targets", f"Modules that {title} works for.", when=runs, read_only=True),
        Key(
            *(f"{name}_layerwise", "flag", "optimizer.layerwise", False),
            about="Step inside the backward pass and free each layer's gradients at once.",
            when=runs,
            read_only=True,
        ),
    )


_OPTIMIZER = (
    *_low_rank("galore", "GaLore"),
    *_low_rank("apollo", "APOLLO"),
    Key(
        *("apollo_proj", "word", "optimizer.projection", "random"),
        about="How APOLLO projects: by singular vectors (svd) or at random, which needs no memory for the projection.",
        when=uses_optimizer("use_apollo"),
        read_only=True,
    ),
    Key(
        *("use_badam", "flag", "", False),
        about="Train one block of layers at a time (BAdam): gradients and optimizer states exist for that block.",
    ),
    Key(
        *("badam_mode", "word", "optimizer.badam_mode", "layer"),
        about="What BAdam trains at a time: a layer, or a share (ratio) of the parameters.",
        when=uses_optimizer("use_badam"),
        read_only=True,
    ),
    Key(
        *("badam_update_ratio", "number", "", 0.05),
        about="The share of parameters that BAdam trains at a time with `badam_mode: ratio`.",
    ),
    Key(
        *("badam_switch_interval", "whole", "", 50),
        about="Steps until BAdam goes on to the next block.",
    ),
    Key(
        *("use_adam_mini", "flag", "optimizer.name", False),
        about="Adam-mini: one second moment for a block of weights.",
        values={True: "adam_mini"},
        when=uses_optimizer("use_adam_mini"),
        read_only=True,
    ),
    Key(
        *("use_muon", "flag", "optimizer.name", False),
        about="Muon for the matrices, AdamW for the rest.",
        values={True: "muon"},
        when=uses_optimizer("use_muon"),
        read_only=True,
    ),
)

_EVALUATION = (
    Key(
        *("eval_num_beams", "whole", "evaluation.num_beams", None),
        about="Beams of the evaluation's generation. Each has a KV cache.",
        read=read_beams,
        read_only=True,
    ),
    Key(
        *("val_size", "number", "evaluation.samples", 0.0),
        about="What is held back for evaluation: a number of samples, or below 1 a share of them.",
        read=read_samples,
        read_only=True,
    ),
    Key(
        *("ray_num_workers", "whole", "parallelism.world_size", 1),
        about="Number of workers that Ray starts, one a GPU.",
        read=read_world,
        read_only=True,
    ),
)

_ENGINE = (
    Key(
        *("use_mca", "flag", "parallelism.engine", False),
        about="Train with Megatron (mcore_adapter).",
        read=read_megatron,
        read_only=True,
    ),
    Key(
        *("use_megatron_bridge", "flag", "", False),
        about="Train with Megatron Bridge.",
        read_with="use_mca",
    ),
    *(
        Key(
            *(f"{name}_size", "whole", f"parallelism.{field}_parallel_size", 1),
            about=f"GPUs that share {shared}, under Megatron.",
            least=1,
            invalid="ignored",
            when=on_megatron,
            read_only=True,
        )
        for name, field, shared in (
            ("tensor_model_parallel", "tensor", "each layer's weights"),
            ("pipeline_model_parallel", "pipeline", "the layers"),
            ("context_parallel", "context", "each sequence"),
            ("expert_model_parallel", "expert", "the experts"),
        )
    ),
    Key(
        *("recompute_granularity", "word", "checkpointing.mode", None),
        about="Megatron's activation checkpointing: full layers, or their attention alone (selective).",
        read=read_recomputation,
        write=write_recomputation,
    ),
    Key(
        *("use_hyper_parallel", "flag", "parallelism.engine", False),
        about="Train with HyperParallel, which shards as FSDP2 does.",
        read=read_hyper_parallel,
        read_only=True,
    ),
    Key(
        *("hyper_parallel_cp_size", "whole", "parallelism.context_parallel_size", 1),
        about="GPUs that share each sequence, under HyperParallel.",
        when=on_hyper_parallel,
        read_only=True,
    ),
)

_INFERENCE = (
    Key(
        *("infer_dtype", "word", "precision.compute", "auto"),
        about="The dtype that chat, API and prediction compute in.",
        read=read_inference_dtype,
        read_only=True,
    ),
    Key(
        *("infer_backend", "word", "", "huggingface"),
        about="What answers the requests. vLLM and SGLang take a share of each card, whatever the model needs.",
        read=read_server,
    ),
    Key(
        *("quantization_device_map", "word", "", None),
        about="`auto` spreads 4-bit weights over the visible cards when requests are answered, not when training.",
        read_with="infer_backend",
    ),
    Key(
        *("use_kv_cache", "flag", "serving.uses_cache", True),
        read_only=True,
        about="Keep keys and values while generating. Without it each token runs the whole sequence again.",
    ),
    Key(
        *("vllm_maxlen", "whole", "sequence.length", 4096),
        earlier_default=((0, 9, 1), 2048),  # 0.9.0 and 0.9.1 hparams/model_args.py
        about="The longest sequence under vLLM, prompt and answer.",
        when=served_by("vllm"),
        read_only=True,
    ),
    Key(
        *("vllm_gpu_util", "number", "serving.memory_share", 0.7),
        earlier_default=((0, 9, 3), 0.9),  # 0.9.2 and 0.9.3 hparams/model_args.py
        about="The share of each card that vLLM fills with weights and KV cache.",
        read_with="infer_backend",
        read_only=True,
    ),
    Key(
        *("vllm_config", "any", "serving.cache_dtype", None),
        about="More arguments of vLLM's engine. `kv_cache_dtype: fp8` halves the KV cache.",
        when=served_by("vllm"),
        read=read_server_config,
        read_only=True,
    ),
    Key(
        *("sglang_maxlen", "whole", "sequence.length", 4096),
        about="The longest sequence under SGLang, prompt and answer.",
        when=served_by("sglang"),
        read_only=True,
    ),
    Key(
        *("sglang_mem_fraction", "number", "serving.memory_share", 0.7),
        about="The share of each card that SGLang fills with weights and KV cache.",
        read_with="infer_backend",
        read_only=True,
    ),
    Key(
        *("sglang_tp_size", "whole", "", -1),
        about="Cards that share each layer under SGLang; -1 means all.",
        read_with="infer_backend",
    ),
)

# Keys of transformers' TrainingArguments that a plan changes. Their own table reads them.
_SHARED = (
    *("per_device_train_batch_size", "gradient_accumulation_steps", "auto_find_batch_size"),
    *("per_device_eval_batch_size", "eval_accumulation_steps", "save_only_model", "learning_rate"),
)


def _shared(name: str, write: Write | None = None, also: tuple[str, ...] = ()) -> Key:
    """A row of TrainingArguments that is written here, as LLaMA-Factory has it."""
    row = TRAINING_ARGUMENTS[name]
    return row._replace(read=None, read_with="", can_write=None, write=write, write_only=True, also=also)


_TRAINING_ARGUMENTS = (
    *(_shared(name) for name in _SHARED),
    *(_shared(name, write_mixed_precision(name), _mixed) for name in ("bf16", "fp16")),
    _shared("optim", write_optimizer),
    _shared("eval_strategy", write_evaluation),
    _shared("accelerator_config", write_accelerator),
)

OF_ADAPTERS = tuple(row for row in _METHOD if row.when in (_lora, _adapter))
RUN_KEYS = Keys(*_MODEL, *_METHOD, *_PRECISION, *_SEQUENCE, *_TRAINING, *_OPTIMIZER, *_EVALUATION)
ENGINE_KEYS = Keys(*_ENGINE)  # read after the launcher's files: the config has the last word
INFERENCE_KEYS = Keys(*_INFERENCE)  # read last, where nothing trains
KEYS = Keys(*RUN_KEYS, *ENGINE_KEYS, *INFERENCE_KEYS, *_TRAINING_ARGUMENTS)
