"""The keys of ms-swift that bear on memory or on the run, read in ms-swift 4.6.0 (swift/arguments, swift/trainers,
swift/rlhf_trainers). `passes` names the Trainer's or TRL's argument that a key becomes: its format reads that.
"""

from __future__ import annotations

from memlint.formats.distillation import Distillation, apply_distillation
from memlint.formats.fields import Fields, as_int
from memlint.formats.keys import FieldChange, Key, Keys, Written
from memlint.formats.swift.config import SwiftConfig
from memlint.formats.swift.frozen_parameters import read_frozen_parameters
from memlint.run import UNKNOWN, Origin

_ATTENTIONS = {"flash_attn": "flash_attention_2", "flash_attention_2": "flash_attention_2", "sdpa": "sdpa"} | {
    "eager": "eager",
    "flash_attention_3": "flash_attention_3",
}


def generates(config: SwiftConfig) -> bool:
    return config.generates


def uses_engine(config: SwiftConfig) -> bool:
    """Whether vLLM writes the completions on the training cards."""
    return config.writes_completions and config.flag("use_vllm") and not _has_own_card(config)


def sends_weights(config: SwiftConfig) -> bool:
    """Whether vLLM writes the completions, wherever: it gets the weights in one part unless said (ms-swift 4.6.0
    rlhf_trainers/rollout_mixin.py:564, split_batches)."""
    return config.writes_completions and config.flag("use_vllm")


def _has_own_card(config: SwiftConfig) -> bool:
    """Whether vLLM has cards of its own: behind a server, or, in releases that had `vllm_device`, behind the cards of
    the training (3.1.1 swift/trainers/rlhf_trainer/grpo_trainer.py: `auto` is the first that no process has)."""
    if config.word("vllm_mode"):
        return config.word("vllm_mode") == "server"
    given = config.section.value
    return "vllm_device" in given and "num_infer_workers" not in given


def writes_completions_itself(config: SwiftConfig) -> bool:
    return config.writes_completions and not config.flag("use_vllm")


def distils(config: SwiftConfig) -> bool:
    return config.distils


def read_teacher(fields: Fields, config: SwiftConfig) -> None:
    """The teacher, or the student itself where none is named (arguments/rlhf_args.py:395, _check_teacher). One behind
    a server answers with a few words' probabilities; of one on the card a few are picked (gkd_trainer.py:107)."""
    name = config.raw("teacher_model")
    own = not isinstance(name, str) or (name == config.raw("model") and fields.get("method.kind") == "lora")
    beta = config.number("beta")
    new_tokens = (config.whole("max_completion_length") or 512) if config.writes_completions else 0
    words, is_served = config.whole("gkd_logits_topk") or 0, config.written("teacher_model_server") is not None
    found = Distillation(
        "" if own else str(name),
        config.origin("teacher_model"),
        0.5 if beta is None else beta,
        in_chunks=not words and not is_served,
        new_tokens=new_tokens,
        words=words,
        is_served=is_served,
    )
    apply_distillation(fields, found, config.context, config.section.document.path)
    _place_teacher(fields, config)
    _read_compared(fields, config, new_tokens)
    if config.writes_completions:
        engine = "vllm" if _has_own_card(config) else "vllm_colocate"
        fields.put("rollout.generator", engine if config.flag("use_vllm") else "model", config.origin("use_vllm"))


def _place_teacher(fields: Fields, config: SwiftConfig) -> None:
    """What holds the teacher: DeepSpeed by settings of its own, or the host but for its forward (ms-swift 4.6.0
    rlhf_trainers/rollout_mixin.py, _setup_teacher and load_teacher_model_context)."""
    own = config.word("teacher_deepspeed")
    placed = own or config.section.value.get("deepspeed")
    fields.put("rollout.offloads_reference", placed == "zero3_offload", config.origin("teacher_deepspeed"))
    if own:
        stage = _STAGES.get(own.removesuffix("_offload"))
        if stage is None:
            fields.infer("stack.unmodelled", "a teacher under DeepSpeed settings of its own", f"`{own}`")
            fields.infer("stack.unmodelled_adds", True, f"`{own}`")
        else:
            fields.put("method.extra_models_stage", stage, config.origin("teacher_deepspeed"))
    if config.flag("offload_teacher_model"):
        fields.put("rollout.swaps_reference", True, config.origin("offload_teacher_model"))


_STAGES = {f"zero{stage}": stage for stage in range(4)}


def _read_compared(fields: Fields, config: SwiftConfig, new_tokens: int) -> None:
    """The tokens whose logits GKD computes: those from the first label of a row on (4.6.0 rlhf_trainers/gkd_trainer.py,
    prepare_logits_to_keep). `sft_alpha` adds the labels' cross entropy, which the student's forward computes."""
    length, share = fields.get("sequence.max_prompt_length", None), config.number("lmbda")
    if new_tokens and isinstance(length, int) and not is_multimodal(config):
        compared = new_tokens if share is not None and share >= 1 else max(length, new_tokens)
        fields.infer("loss.compared_tokens", compared, "ms-swift gkd_trainer.py: prepare_logits_to_keep")
    if (config.number("sft_alpha") or 0) > 0 and fields.get("loss.divergence", "") not in ("", "few_served"):
        fields.put("loss.labels_beside_teacher", True, config.origin("sft_alpha"))


def is_multimodal(config: SwiftConfig) -> bool:
    return bool(getattr(config.architecture, "towers", ()))


def read_length(fields: Fields, config: SwiftConfig) -> None:
    """`max_length` bounds the whole sample, or the prompt of GRPO and PPO. Unset it is the model's own bound, which
    says nothing of the data (arguments/base_args/base_args.py:227)."""
    if config.is_release_2:
        _read_as_release_2(fields, config)
    elif config.written("max_length") is None and not config.generates:
        positions = getattr(config.architecture, "max_positions", 0)
        bound = f", {positions:,} tokens here" if isinstance(positions, int) and positions else ""
        reason = f"`max_length` is not set: ms-swift cuts samples at the model's own bound{bound}"
        fields.unknown("sequence.length", reason)
    if _cuts_before_images(config) and fields.get("sequence.images", UNKNOWN) != 0:
        fields.unknown(
            "sequence.length", "ms-swift before 3.4 cuts the text at `max_length`: images and sounds come on top"
        )


_COUNTS_IMAGES_SINCE = (3, 4)


def _cuts_before_images(config: SwiftConfig) -> bool:
    """Whether a sample is cut before its images become tokens (3.3.0 llm/template/base.py:979, which the templates of
    image models call first; 2.6.1 llm/utils/template.py:962). 3.4.0 measures the whole sample (base.py:421)."""
    stated = config.context.versions.get("swift", ())
    is_old = config.is_release_2 or () < tuple(stated) < _COUNTS_IMAGES_SINCE
    return is_old and is_multimodal(config) and not config.generates


_RELEASE_2 = "ms-swift 2.6.1 llm/utils/argument.py"


def _read_as_release_2(fields: Fields, config: SwiftConfig) -> None:
    """ms-swift 2 cuts at 2048 tokens unless said, trains the vision tower with everything else, and has LoRA's targets
    of each model's own unless it is given other ones (2.6.1 llm/utils/argument.py: SftArguments)."""
    if config.written("max_length") is None:
        fields.put("sequence.length", 2048, Origin("default", detail=f"{_RELEASE_2} max_length"))
    if config.section.value.get("per_device_eval_batch_size") is None:
        _evaluate_as_release_2(fields, config)
    targets = set(str(config.raw("target_modules") or "DEFAULT").split(","))
    if fields.get("method.kind") != "lora":
        return
    if {"DEFAULT", "AUTO"} & targets:
        fields.unknown("method.targets", f"{_RELEASE_2}: LoRA's targets are those of the model's own list")
    elif "ALL" in targets:
        fields.put("method.targets", ("all-linear",), config.origin("target_modules"))


def _evaluate_as_release_2(fields: Fields, config: SwiftConfig) -> None:
    """`eval_batch_size`, else one sequence where it generates, else the training batch (2.6.1 SftArguments)."""
    size = as_int(config.section.value.get("eval_batch_size"))
    if size is not None:
        fields.put("evaluation.batch_size", size, config.section.origin("eval_batch_size"))
    elif config.section.value.get("predict_with_generate"):
        fields.infer("evaluation.batch_size", 1, f"{_RELEASE_2} eval_batch_size with predict_with_generate")
    else:
        reason = f"{_RELEASE_2} eval_batch_size: the training batch"
        fields.infer("evaluation.batch_size", fields.get("batch.micro_batch_size"), reason)


def read_sharing(fields: Fields, config: SwiftConfig) -> None:
    """GPUs that share a sequence are one rank of data parallelism (sequence_parallel/sequence_parallel.py,
    _init_device_mesh)."""
    key, field = "sequence_parallel_size", "parallelism.sequence_parallel_size"
    degree, world = config.whole(key), fields.get("parallelism.world_size")
    if degree is None:
        fields.unknown(field, config.origin(key).detail or f"`{key}` is no whole number")
        return
    fields.put(field, degree, config.origin(key))
    if degree > 1 and isinstance(world, int):
        fields.infer("parallelism.data_parallel_size", max(1, world // degree), "GPUs over those that share a sequence")


_PLAIN_OPTIMIZERS = ("", "default", "lorap", "multimodal")  # groups of their own for the Trainer's optimizer


def own_optimizer(config: SwiftConfig) -> str:
    """The plug-in that makes the optimizer (arguments/sft_args.py:214, optimizers/mapping.py)."""
    return config.word("optimizer") or ("galore" if config.flag("use_galore") else "")


def uses_galore(config: SwiftConfig) -> bool:
    return own_optimizer(config) == "galore"


def read_own_optimizer(fields: Fields, config: SwiftConfig) -> None:
    """`optimizer`, a name of ms-swift's own. It takes the place of `optim`; GaLore's follows it
    (optimizers/galore/utils.py:170, get_optimizer)."""
    name = own_optimizer(config)
    if name in _PLAIN_OPTIMIZERS:
        return
    key = "optimizer" if config.word("optimizer") else "use_galore"
    if name in ("muon", "muonclip"):
        fields.put("optimizer.name", name, config.origin(key))
    elif name == "galore":
        fields.put("optimizer.name", _galore(config, str(fields.get("optimizer.name"))), config.origin(key))
        fields.infer("optimizer.targets", ("all-linear",), f"{key}: all linear layers (pipelines/train/tuner.py:420)")
        fields.infer("optimizer.projects_head", False, f"{key}: all but the head (pipelines/train/tuner.py:420)")
    else:
        fields.unknown("optimizer.name", f"`optimizer: {name}` is a plug-in of one's own")


def _galore(config: SwiftConfig, optim: str) -> str:
    if config.flag("galore_quantization"):
        return "q_galore_adamw8bit"
    return "galore_adafactor" if optim == "adafactor" else f"galore_adamw{'_8bit' * ('8bit' in optim)}"


def _write_length(change: FieldChange) -> Written | None:
    """`max_length`, which bounds the prompt alone in GRPO and PPO."""
    generates = change.run.method.stage in ("grpo", "ppo")
    said = "sequence.max_prompt_length" if generates else "sequence.length"
    return {"max_length": change.value} if change.field == said else None


def read_packing(fields: Fields, config: SwiftConfig) -> None:
    """Packed rows are all `packing_length` long, and kept apart (arguments/sft_args.py:80)."""
    if not config.flag("packing"):
        return
    origin = config.origin("packing")
    length = config.whole("packing_length")
    for field, value in (("sequence.neat_packing", True), ("sequence.length_is_bound", False)):
        fields.put(field, value, origin)
    if length:
        fields.put("sequence.length", length, config.origin("packing_length"))
    _read_packed_pairs(fields, config)


def _read_packed_pairs(fields: Fields, config: SwiftConfig) -> None:
    """A packed row of pairs has `packing_length` tokens of chosen and rejected answers together: a pair counts as the
    sum of both (ms-swift 4.6.0 dataset/packing.py:163, template/base.py:732)."""
    length, size = fields.get("sequence.length", None), fields.get("batch.micro_batch_size", None)
    if config.stage in _PAIRED and isinstance(length, int) and isinstance(size, int):
        fields.infer("batch.max_tokens", length * size, "a pair is packed as the sum of both answers")


_PAIRED = ("dpo", "cpo", "simpo", "orpo", "rm")


def read_towers(fields: Fields, config: SwiftConfig) -> None:
    """The tower and the projector are frozen unless the file says otherwise (arguments/tuner_args.py)."""
    parts = (
        ("freeze_vit", "vision_tower"),
        ("freeze_aligner", "multi_modal_projector"),
        ("freeze_llm", "language_model"),
    )
    for key, part in parts:
        fields.put(f"method.freeze_{part}", config.flag(key), config.origin(key))


def read_pixels(fields: Fields, config: SwiftConfig) -> None:
    """`max_pixels` scales every image down; Qwen's processors read the variable MAX_PIXELS for the same."""
    given = config.whole("max_pixels") or config.environment("MAX_PIXELS")
    if given:
        fields.put("sequence.image_max_pixels", given, config.origin("max_pixels"))


def read_reference(fields: Fields, config: SwiftConfig) -> None:
    """GRPO computes log-probabilities of the policy and of the reference before the update, in micro-batches of the
    update's size (rlhf_trainers/grpo_trainer.py:760)."""
    if config.stage != "grpo":
        return
    fields.infer("loss.selection", "divided_in_place", "ms-swift 4.6.0 rlhf_trainers/grpo_trainer.py:1581: logits.div_")
    size = fields.get("batch.micro_batch_size")
    for field in ("rollout.log_prob_micro_batch_size", "rollout.reference_micro_batch_size"):
        if size is UNKNOWN:
            fields.unknown(field, "the micro-batch is not known")
        else:
            fields.infer(field, size, "grpo_trainer.py:760, micro-batches of the update's size")


def read_sequences(fields: Fields, config: SwiftConfig) -> None:
    """All completions of a generation batch are written at once: those of `steps_per_generation` micro-batches, by
    default of one step (rlhf_trainers/arguments.py, GRPOConfig of TRL)."""
    size, steps = fields.get("batch.micro_batch_size"), config.whole("steps_per_generation")
    steps = steps or fields.get("batch.gradient_accumulation_steps")
    total, world = config.whole("generation_batch_size"), fields.get("parallelism.world_size")
    if total and isinstance(world, int):
        fields.put("rollout.sequences", max(1, total // world), config.origin("generation_batch_size"))
    elif isinstance(size, int) and isinstance(steps, int):
        fields.infer("rollout.sequences", size * steps, "micro-batch x steps_per_generation")


def read_accumulation(fields: Fields, config: SwiftConfig) -> None:
    if config.written("gradient_accumulation_steps") is not None:
        return
    steps = config.accumulation(fields.get("parallelism.world_size"))
    if steps is None:
        reason = "ms-swift chooses it: 16 over the batch size and the number of GPUs"
        fields.unknown("batch.gradient_accumulation_steps", reason)
    else:
        detail = "ms-swift 4.6.0 trainers/arguments.py:291: 16 sequences a step"
        fields.put("batch.gradient_accumulation_steps", steps, Origin("default", detail=detail))


_SEVERAL_TEXTS = ("embedding", "reranker", "generative_reranker")


def read_task(fields: Fields, config: SwiftConfig) -> None:
    """`seq_cls` gives one score for each sequence, and builds no logits. Samples of embeddings and rerankers are as
    many texts as the data has (ms-swift 4.6.0 template/base.py, _embedding_data_collator, _reranker_data_collator).
    A classifier and a reranker have a head of scores in place of that of words, an embedding leaves that alone, and a
    generative reranker reads two rows of it (model/register.py:279 and :324, model/patcher.py:75)."""
    task, origin = config.word("task_type"), config.section.origin("task_type")
    fields.put("method.drops_language_head", task in ("seq_cls", "embedding", "reranker"), origin)
    if task in _SEVERAL_TEXTS:
        what = f"`task_type: {task}`: samples of several texts, and a loss without logits"
        fields.put("stack.unmodelled", what, origin)
        fields.put("stack.unmodelled_adds", True, origin)


def read_expert_forward(fields: Fields, config: SwiftConfig) -> None:
    """How transformers 5 runs stacked experts (transformers 5.23 integrations/moe.py): one after the other, or with a
    copy of the expert's weights for every chosen token. Figures are those of `grouped_mm`, the default."""
    name = config.word("experts_impl")
    if name in ("eager", "batched_mm"):
        origin = config.section.origin("experts_impl")
        fields.put("stack.unmodelled", f"`experts_impl: {name}`: figures are those of `grouped_mm`", origin)
        fields.put("stack.unmodelled_adds", True, origin)


def read_lisa(fields: Fields, config: SwiftConfig) -> None:
    """LISA trains some layers at a time and picks others every few steps (callbacks/lisa.py:11)."""
    if config.whole("lisa_activated_layers") and fields.get("method.kind") == "full":
        origin = config.section.origin("lisa_activated_layers")
        fields.put("stack.unmodelled", "LISA picks other layers every few steps", origin)
        fields.put("stack.unmodelled_adds", False, origin)


# Schemes whose weights are 0 and 1 alone (loss_scale/mapping.py, loss_scale/base.py:32); others are an agent's, with
# other numbers (loss_scale/agent.py:10).
_ZERO_OR_ONE_SCHEMES = frozenset(
    ("", "default", "last_round", "all", "base", "ignore_empty_think", "ignore_think_prefix")
)


def read_loss_scale(fields: Fields, config: SwiftConfig) -> None:
    """Weights of tokens are put on a loss of each token, outside of the model: Liger's, inside of it, does not run then
    (trainers/seq2seq_trainer.py:135)."""
    if set(config.word("loss_scale").split("+")) <= _ZERO_OR_ONE_SCHEMES or fields.get("loss.kind") != "liger":
        return
    origin = config.origin("loss_scale")
    fields.put("loss.kind", "plain", origin)
    reason = f"`loss_scale: {config.word('loss_scale')}` weighs the loss of each token, outside of the model"
    fields.put("loss.fallback_reason", reason, origin)


def _write_attention(change: FieldChange) -> Written | None:
    """`flash_attn` is ms-swift's word for FlashAttention 2."""
    word = next((name for name, meaning in _ATTENTIONS.items() if meaning == change.value), None)
    return None if word is None else {"attn_impl": word}


def _write_targets(change: FieldChange) -> Written | None:
    """A single name is written as it is: a flag with one value reads as that value."""
    names = list(change.value) if isinstance(change.value, (tuple, list)) else []
    return {"target_modules": names[0] if len(names) == 1 else names} if names else None


def _write_quantization(change: FieldChange) -> Written | None:
    """bitsandbytes' 4 bits: nf4 and doubly quantised unless the file says otherwise (base_args/quant_args.py:40)."""
    said = any(name.startswith("bnb_4bit") for name in change.section)
    if change.changes.get("model.quantization.bits") != 4 or said:
        return None
    return {"quant_method": "bnb", "quant_bits": 4} if change.field == "model.quantization.bits" else {}


_MODEL = (
    Key(
        *("model", "text", "model.name"),
        older=("model_id_or_path", "model_type"),  # release 2 finds a model by its type alone
        passes="model_name_or_path",
        about="The model: a name of the ModelScope or Hugging Face hub, or a folder.",
        read_only=True,
    ),
    Key(
        *("torch_dtype", "word", "model.weights_dtype"),
        older=("dtype",),
        passes="dtype",
        about="The dtype that the weights are loaded in: the checkpoint's unless said. Mixed precision follows it.",
    ),
    Key(
        *("attn_impl", "word", "attention.implementation"),
        passes="attn_implementation",
        values=_ATTENTIONS,
        write=_write_attention,
        about="The attention kernel. `flash_attn` is FlashAttention 2; packing and padding-free batches need it.",
    ),
    Key(
        *("quant_bits", "whole", "model.quantization.bits"),
        older=("quantization_bit",),
        passes="bits",
        about="Bits of weights that are quantised as they load.",
        also=("model.quantization.kind", "model.quantization.double_quant"),
        write=_write_quantization,
    ),
    Key(
        *("loss_scale", "text", "loss.fallback_reason", "last_round"),
        also=("loss.kind",),
        read=read_loss_scale,
        read_only=True,
        about="How much tokens count. Weights other than 0 and 1 switch Liger's fused loss off.",
    ),
    Key(
        *("experts_impl", "word", "stack.unmodelled", "grouped_mm"),
        about="How stacked experts run: `grouped_mm` by default. `eager` and `batched_mm` have no figure.",
        read=read_expert_forward,
        read_only=True,
    ),
    Key("quant_method", "word", about="What quantises: bnb, hqq, eetq, quanto or fp8."),
    Key(
        *("bnb_4bit_quant_storage", "word", "model.quantization.storage_dtype"),
        passes="bnb_4bit_quant_storage",
        about="The dtype that packed 4-bit weights are stored in. FSDP shards them where it is that of the others.",
    ),
    Key(
        *("task_type", "word", "stack.unmodelled", "causal_lm"),
        about="What the model is trained to give: tokens, or one score or one vector for each text.",
        also=("method.drops_language_head",),
        read=read_task,
        read_only=True,
    ),
)
_TUNER = (
    Key(
        *("tuner_type", "word", "method.kind", "lora"),
        older=("train_type", "sft_type"),
        passes="use_peft",
        values={"lora": "lora", "full": "full"},
        about="What trains: a LoRA adapter unless said, `full` for all parameters.",
    ),
    Key(
        *("lisa_activated_layers", "whole", "stack.unmodelled", 0),
        about="How many layers LISA trains at a time; 0 trains all of them. Its memory is not modelled.",
        least=0,
        read=read_lisa,
        read_only=True,
    ),
    Key(
        *("lora_rank", "whole", "method.rank", 8),
        passes="lora_r",
        least=1,
        about="The rank of LoRA. The adapter's parameters, gradients and optimizer state grow with it.",
    ),
    Key(
        *("lora_alpha", "number", "method.alpha", 32),
        passes="lora_alpha",
        least=0,
        about="LoRA's update is scaled by alpha over rank. It takes no memory.",
    ),
    Key(
        *("lora_dropout", "number", "method.dropout", 0.05),
        passes="lora_dropout",
        least=0,
        about="Dropout before the adapter. Above 0 its masked input is kept for the backward pass.",
    ),
    Key(
        *("target_modules", "words", "method.targets", "all-linear"),
        older=("lora_target_modules",),
        passes="lora_target_modules",
        write=_write_targets,
        about="The linear layers that get an adapter: all but the head unless said.",
    ),
    Key(
        *("modules_to_save", "words", "method.modules_to_save"),
        passes="lora_modules_to_save",
        about="Modules trained in full beside the adapter, each a second copy with gradients and optimizer state.",
    ),
    Key(
        *("freeze_vit", "flag", "method.freeze_vision_tower", True),
        also=("method.freeze_multi_modal_projector", "method.freeze_language_model"),
        when=is_multimodal,
        read=read_towers,
        write=lambda change: {"freeze_vit": change.value} if change.field == "method.freeze_vision_tower" else None,
        about="Leave the vision tower as it is.",
    ),
    Key("freeze_aligner", "flag", "", True, read_with="freeze_vit", about="Leave the projector as it is."),
    Key("freeze_llm", "flag", "", False, read_with="freeze_vit", about="Leave the language model as it is."),
    Key(
        *("freeze_parameters", "words", "method.trainable_patterns"),
        also=("method.kind",),
        read=read_frozen_parameters,
        read_only=True,
        about="Full tuning: leave parameters as they are whose names begin so.",
    ),
    Key(
        *("freeze_parameters_regex", "word"),
        read_with="freeze_parameters",
        about="Full tuning: leave parameters as they are whose names this matches.",
    ),
    Key(
        *("freeze_parameters_ratio", "number", "", 0),
        read_with="freeze_parameters",
        about="Full tuning: leave this share of the parameters as it is, from the embedding upwards.",
    ),
    Key(
        *("trainable_parameters", "words"),
        read_with="freeze_parameters",
        about="Full tuning: train parameters whose names begin so, though they are among the frozen ones.",
    ),
    Key(
        *("trainable_parameters_regex", "word"),
        read_with="freeze_parameters",
        about="Full tuning: train parameters whose names this matches, though they are among the frozen ones.",
    ),
)
_BATCH = (
    Key(
        *("per_device_train_batch_size", "whole", "batch.micro_batch_size", 1),
        older=("batch_size",),
        passes="per_device_train_batch_size",
        least=1,
        about="Sequences per GPU and forward pass. Activations and logits grow with it.",
    ),
    Key(
        *("gradient_accumulation_steps", "whole", "batch.gradient_accumulation_steps"),
        least=1,
        read=read_accumulation,
        about="Backward passes of a step. Unset: as many as make 16 sequences, 1 for GRPO.",
    ),
    Key(
        *("gradient_checkpointing", "flag", "checkpointing.mode", True),
        passes="gradient_checkpointing",
        values={True: "full", False: "none"},
        about="Recompute each layer in the backward pass instead of keeping its activations.",
    ),
    Key(
        *("vit_gradient_checkpointing", "flag", "checkpointing.vision_tower"),
        only_if_given=True,
        about="The same for the vision tower's layers alone. Unset: as the language model's.",
    ),
    Key(
        *("max_length", "whole", "sequence.length"),
        least=1,
        also=("sequence.max_prompt_length",),
        read=read_length,
        write=_write_length,
        about="The longest sample in tokens; of GRPO and PPO the longest prompt. Unset: the model's own bound.",
    ),
    Key(
        *("packing", "flag", "sequence.packing", False),
        passes="packing",
        about="Fill every row up to `packing_length` with several samples. It needs FlashAttention.",
    ),
    Key(
        *("packing_length", "whole", "sequence.neat_packing"),
        also=("sequence.length_is_bound",),
        least=1,
        read=read_packing,
        read_only=True,
        about="The length of a packed row; `max_length` unless said.",
    ),
    Key(
        *("padding_free", "flag", "sequence.unpadded", False),
        about="Join the samples of a batch without padding. It needs FlashAttention.",
    ),
    Key(
        *("optimizer", "word", "optimizer.name"),
        read=read_own_optimizer,
        read_only=True,
        also=("optimizer.targets", "optimizer.projects_head"),
        about="A plug-in that makes the optimizer in place of `optim`: galore, lorap, muon, muonclip, multimodal.",
    ),
    Key(
        *("use_galore", "flag", "", False),
        about="Optimizer states of a low rank (GaLore), where no `optimizer` is named.",
    ),
    Key(
        *("galore_rank", "whole", "optimizer.rank", 128),
        least=1,
        when=uses_galore,
        read_only=True,
        about="Rank of GaLore's optimizer states.",
    ),
    Key(
        *("galore_quantization", "flag", "", False),
        about="Projections in 4 bits and states in 8 (Q-GaLore).",
    ),
    Key(
        *("sequence_parallel_size", "whole", "parallelism.sequence_parallel_size", 1),
        least=1,
        read=read_sharing,
        about="GPUs that share each sequence.",
    ),
    Key(
        *("max_pixels", "whole", "sequence.image_max_pixels"),
        least=1,
        when=is_multimodal,
        read=read_pixels,
        about="The most pixels of an image; larger ones are scaled down.",
    ),
)
_GENERATION = (
    Key("rlhf_type", "word", "", "dpo", about="Which trainer `swift rlhf` starts: dpo, kto, grpo, gkd, ..."),
    Key(
        *("beta", "number", "method.reference_model"),
        passes="beta",
        read_only=True,
        about="The weight of the distance to the reference model: 0.04 for GRPO unless said; 0 does without one.",
    ),
    Key(
        *("reward_model", "text", "method.extra_models"),
        passes="reward_model_path",
        read_only=True,
        about="The model that scores completions; PPO's value model starts from it.",
    ),
    Key(
        *("teacher_model", "text", "method.extra_models"),
        when=distils,
        read=read_teacher,
        read_only=True,
        about="The frozen model that GKD learns from; the model itself unless said.",
    ),
    Key(
        *("lmbda", "number", "rollout.generator", 0.5),
        read_with="teacher_model",
        about="The share of GKD's steps for which the student writes completions. 0: none.",
    ),
    Key(
        *("teacher_deepspeed", "word", "rollout.offloads_reference"),
        read_with="teacher_model",
        about="DeepSpeed's settings of the teacher; those of the student unless said.",
    ),
    Key(
        *("offload_teacher_model", "flag", "rollout.swaps_reference", False),
        read_with="teacher_model",
        about="Keep the teacher in host memory but for its own forward.",
    ),
    Key(
        *("sft_alpha", "number", "loss.labels_beside_teacher", 0),
        read_with="teacher_model",
        least=0,
        about="The weight of the labels' cross entropy beside GKD's comparison with the teacher.",
    ),
    Key(
        *("teacher_model_server", "text"),
        read_with="teacher_model",
        about="The address of a teacher that answers with the likeliest words alone.",
    ),
    Key(
        *("gkd_logits_topk", "whole"),
        read_with="teacher_model",
        least=1,
        about="GKD compares this many of the likeliest words alone.",
    ),
    Key(
        *("num_generations", "whole", "method.num_generations", 8),
        passes="num_generations",
        least=1,
        when=generates,
        about="Completions that GRPO writes for each prompt.",
    ),
    Key(
        *("max_completion_length", "whole", "sequence.max_new_tokens", 512),
        older=("response_length", "max_new_tokens"),
        passes="max_completion_length",
        least=1,
        about="The longest completion in tokens.",
    ),
    Key(
        *("use_vllm", "flag", "rollout.generator", False),
        passes="use_vllm",
        values={True: "vllm", False: "model"},
        read_only=True,
        about="Write completions with vLLM instead of the model itself.",
    ),
    Key(
        *("vllm_mode", "word", "rollout.generator"),
        passes="vllm_mode",
        read_only=True,
        about="Where vLLM runs: `colocate` shares the training cards, `server` has cards of its own.",
    ),
    Key(
        *("vllm_gpu_memory_utilization", "number", "rollout.share", 0.9),
        least=0,
        most=1,
        when=uses_engine,
        about="The share of each card that a colocated vLLM takes.",
    ),
    Key(
        *("sleep_level", "whole", "rollout.sleep_level", 0),
        least=0,
        most=2,
        when=uses_engine,
        about="What a colocated vLLM gives back while the model trains: 0 nothing, 1 its cache, with weights in host "
        "memory, 2 both.",
    ),
    Key(
        *("move_model_batches", "whole", "rollout.gathered_parts", 1),
        least=1,
        when=sends_weights,
        about="Parts in which vLLM gets the weights. Under ZeRO-3 each GPU gathers one of them: all, unless said.",
    ),
    Key(
        *("vllm_tensor_parallel_size", "whole", "rollout.tensor_parallel_size", 1),
        least=1,
        when=uses_engine,
        about="GPUs that share vLLM's weights.",
    ),
    Key(
        *("vllm_max_model_len", "whole", "rollout.max_model_len"),
        least=1,
        only_if_given=True,
        when=uses_engine,
        about="Tokens of the longest sequence that vLLM accepts.",
    ),
    Key(
        *("offload_model", "flag", "rollout.offloads_weights", False),
        when=uses_engine,
        about="Move the model to host memory while vLLM writes completions.",
    ),
    Key(
        *("offload_optimizer", "flag", "rollout.offloads_optimizer", False),
        when=uses_engine,
        about="Move optimizer states to host memory while vLLM writes completions.",
    ),
    Key(
        *("steps_per_generation", "whole", "rollout.sequences"),
        least=1,
        when=writes_completions_itself,
        read=read_sequences,
        read_only=True,
        about="Micro-batches whose completions are written at once; those of one step unless said.",
    ),
    Key(
        *("generation_batch_size", "whole"),
        read_with="steps_per_generation",
        about="Completions that all GPUs write at once.",
    ),
    Key(
        *("ref_model", "text", "rollout.reference_micro_batch_size"),
        also=("rollout.log_prob_micro_batch_size",),
        when=generates,
        read=read_reference,
        read_only=True,
        about="The reference model; the model itself unless said.",
    ),
)
KEYS = Keys(*_MODEL, *_TUNER, *_BATCH, *_GENERATION)
