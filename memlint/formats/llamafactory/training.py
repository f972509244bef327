"""LLaMA-Factory: sequence, attention, checkpointing, optimizer and evaluation of a v0 file."""

from __future__ import annotations

import json
from collections.abc import Mapping

import memlint.formats.llamafactory.families as own_families
from memlint.formats.fields import Fields, as_bool
from memlint.formats.keys import CanWrite, FieldChange, Read, When, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig, default_origin
from memlint.formats.llamafactory.inference import SERVERS, answers_requests, has_server
from memlint.formats.llamafactory.releases import takes_attention_as_flag
from memlint.run import UNKNOWN, Origin


def read_packing(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Packing. A null, the default, packs where the stage is pre-training (hparams/parser.py:645); `neat_packing`
    switches it on (data_args.py:185)."""
    neat = config.own.flag("neat_packing")
    written = config.own.get("packing")
    packing = neat or (config.stage == "pt" if as_bool(written) is None else bool(as_bool(written)))
    if neat:
        config.put(fields, "sequence.packing", "neat_packing", True)
    elif as_bool(written) is not None or "packing" in config.unresolved:
        config.put(fields, "sequence.packing", "packing", packing)
    else:
        fields.put("sequence.packing", packing, default_origin(config.versions, f"stage {config.stage}"))
    if packing and config.stage in ("pt", "sft"):
        fields.infer("sequence.length_is_bound", False, "packed sequences are all `cutoff_len` long")


def read_placement_rules(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`kt_optimize_rule`: rules for one card leave it all that is not an expert, those for several divide layers. The
    file is one of KTransformers' own, named for it (LLaMA-Factory 0.9.4 examples/kt_optimize_rules)."""
    rules = config.text("kt_optimize_rule")
    if config.own.flag("use_kt") and "multi-gpu" in rules.lower():
        reason = "`kt_optimize_rule`: its rules divide the layers over cards"
        fields.put("stack.unmodelled", reason, config.own.origin("kt_optimize_rule"))


def read_lora_experts(fields: Fields, config: LlamaFactoryConfig) -> None:
    if config.own.flag("use_kt") and config.own.flag("kt_use_lora_experts"):
        reason = "`kt_use_lora_experts`: experts on the card beside those of the CPU"
        fields.put("stack.unmodelled", reason, config.own.origin("kt_use_lora_experts"))


def read_shift_attention(fields: Fields, config: LlamaFactoryConfig) -> None:
    """LongLoRA's shifted attention, for the models that LLaMA-Factory patches (model_utils/longlora.py)."""
    if config.own.flag("shift_attn") and config.training:
        works = not config.family or config.family in own_families.SHIFT_ATTENTION_MODELS
        config.put(fields, "sequence.shift_attention", "shift_attn", works)


def read_pixels(key: str, field: str) -> Read:
    """hparams/model_args.py:306: 768 * 768 pixels an image, 256 * 256 a frame, 128 frames; for models that see."""

    def read(fields: Fields, config: LlamaFactoryConfig) -> None:
        sees = config.architecture is not None and bool(config.architecture.towers)
        if sees or (config.architecture is None and config.own.written(key)):
            config.put(fields, field, key, config.integer(key))

    return read


def read_max_new_tokens(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Tokens generated per answer: by PPO's policy, by chat and API, in evaluation (train/sft/workflow.py:75)."""
    longest = config.integer("max_new_tokens", 1024)
    if config.stage == "ppo" or not config.training:
        config.put(fields, "sequence.max_new_tokens", "max_new_tokens", longest)
    if config.hf.flag("predict_with_generate"):
        config.put(fields, "evaluation.max_new_tokens", "max_new_tokens", longest)


def read_beams(fields: Fields, config: LlamaFactoryConfig) -> None:
    """Evaluation runs generation in stage sft alone; metrics see token ids, no logits (train/sft/workflow.py:75)."""
    if config.hf.flag("predict_with_generate"):
        beams = config.integer("eval_num_beams") or config.hf.integer("generation_num_beams") or 1
        config.put(fields, "evaluation.num_beams", "eval_num_beams", beams)


def read_samples(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`val_size` of 1 and more counts samples; below it is a share of them (data/loader.py)."""
    size = config.own.number("val_size")
    if size is not None and size >= 1:
        config.put(fields, "evaluation.samples", "val_size", int(size))


# `flash_attn` -> transformers' name for it; "off" is the name of "disabled" up to 0.8.2 (model_utils/attention.py:31).
ATTENTION: Mapping[str, str] = {
    "disabled": "eager",
    "off": "eager",
    "sdpa": "sdpa",
    "fa2": "flash_attention_2",
    "fa3": "flash_attention_3",
}


def read_attention(fields: Fields, config: LlamaFactoryConfig) -> None:
    """configure_attn_implementation (model_utils/attention.py:31)."""
    requested = _requested_attention(config)
    origin = config.own.origin("flash_attn")
    if "flash_attn" in config.unresolved:
        fields.unknown("attention.implementation", "`flash_attn` is an interpolation")
    elif has_server(config):
        fields.infer("attention.implementation", "flash_attention_2", "vLLM and SGLang bring their own fused attention")
    elif config.own.flag("use_unsloth") and config.training:
        fields.infer("attention.implementation", "sdpa", "Unsloth brings its own memory-efficient attention")
    elif config.family in own_families.LOADS_FLASH_3:
        detail = "LLaMA-Factory loads FlashAttention 3 kernels for gpt-oss (model_utils/attention.py:34)"
        fields.infer("attention.implementation", "flash_attention_3", detail)
    elif config.family in own_families.AUTO_IS_FLASH_2_OR_EAGER and requested == "auto":
        reason = "gemma2 gets flash_attention_2 where flash-attn is installed, else eager (model_utils/attention.py:46)"
        fields.unknown("attention.implementation", reason)
    elif config.family in own_families.EAGER_UNLESS_FLASH and requested in ("auto", "sdpa"):
        fields.infer("attention.implementation", "eager", "LLaMA-Factory forces eager attention for Youtu-VL")
    else:
        _plain_attention(fields, requested, origin)


def _requested_attention(config: LlamaFactoryConfig) -> str:
    value = as_bool(config.own.get("flash_attn"))
    if value is not None and takes_attention_as_flag(config.section.document, config.context):
        return "fa2" if value else "auto"
    return config.own.word("flash_attn")


def _plain_attention(fields: Fields, requested: str, origin: Origin) -> None:
    if requested in ATTENTION:
        fields.put("attention.implementation", ATTENTION[requested], origin)
    elif requested == "auto":
        fields.infer("attention.implementation", "sdpa", "`flash_attn: auto` leaves transformers' default, sdpa")
    else:
        fields.unknown("attention.implementation", f"LLaMA-Factory refuses `flash_attn: {requested}`")


def write_attention(change: FieldChange) -> Written | None:
    """The attention implementation. It is not written for gpt-oss, which gets FlashAttention 3 in any case; Unsloth
    brings its own, that counts as sdpa."""
    word = next((word for word, name in ATTENTION.items() if name == change.value), None)
    family = getattr(change.run.model.architecture, "family", "")
    if word is None or family in own_families.LOADS_FLASH_3 or (change.run.stack.use_unsloth and word != "sdpa"):
        return None
    return {"flash_attn": word}


def read_checkpointing(fields: Fields, config: LlamaFactoryConfig) -> None:
    """On unless `disable_gradient_checkpointing` (model_utils/checkpointing.py:184); the Trainer can add it again."""
    disabled = config.own.flag("disable_gradient_checkpointing")
    asked = config.hf.flag("gradient_checkpointing")
    if disabled and config.training and config.own.flag("use_unsloth") and config.tuning == "lora":
        _on_in_any_case(fields, config)
        disabled = False
    if config.family in own_families.WITHOUT_CHECKPOINTING and not asked:
        fields.infer("checkpointing.mode", "none", "LLaMA-Factory switches it off for gemma3n")
        return
    _reentrant(fields, config, asked)
    if disabled and not asked:
        config.put(fields, "checkpointing.mode", "disable_gradient_checkpointing", "none")
        return
    _checkpointing_mode(fields, config, disabled)
    if not asked and as_bool(config.hf.get("gradient_checkpointing")) is False and not disabled:
        _no_effect(fields, config)


def write_checkpointing(change: FieldChange) -> Written | None:
    """Unsloth's own, with the layer inputs in host memory, is a key upon it. Megatron has `recompute_granularity`."""
    if change.run.parallelism.engine == "megatron":
        return None
    if change.value == "none":
        return {"disable_gradient_checkpointing": True, "gradient_checkpointing": None}
    on: Written = {"disable_gradient_checkpointing": None}
    if change.value == "full":
        return on
    if change.value == "unsloth" and not change.run.stack.use_ktransformers:
        return {**on, "use_unsloth_gc": True}
    return None


def write_offloaded_checkpoints(change: FieldChange) -> Written | None:
    """Checkpoints in host memory: only Unsloth's checkpointing keeps them there."""
    mode = change.changes.get("checkpointing.mode", change.run.checkpointing.mode)
    if change.value is True and mode == "unsloth":
        return {}
    return {"use_unsloth_gc": None} if change.value is False else None


def _on_in_any_case(fields: Fields, config: LlamaFactoryConfig) -> None:
    """model_utils/unsloth.py:77, get_unsloth_peft_model: `use_gradient_checkpointing: "unsloth"`, in any case."""
    key = "disable_gradient_checkpointing"
    message = f"`{key}` has no effect: Unsloth's LoRA models checkpoint their layers in any case"
    fields.issues.append(config.section.issue("ignored-key", message, key, severity="warning", on_key=True))


def _checkpointing_mode(fields: Fields, config: LlamaFactoryConfig, disabled: bool) -> None:
    for key in ("use_unsloth_gc", "use_unsloth"):
        if config.own.flag(key) and not disabled:
            config.put(fields, "checkpointing.mode", key, "unsloth")
            config.put(fields, "checkpointing.offload", key, True)
            return
    if disabled:
        fields.put("checkpointing.mode", "full", config.hf.origin("gradient_checkpointing"))
    else:
        config.put(fields, "checkpointing.mode", "disable_gradient_checkpointing", "full")


def _reentrant(fields: Fields, config: LlamaFactoryConfig, asked: bool) -> None:
    options = config.hf.get("gradient_checkpointing_kwargs")
    reentrant = as_bool(options.get("use_reentrant")) if isinstance(options, dict) and asked else None
    if reentrant is not None:
        fields.put("checkpointing.reentrant", reentrant, config.hf.origin("gradient_checkpointing_kwargs"))
    elif config.own.flag("use_kt"):
        fields.infer("checkpointing.reentrant", False, "KTransformers needs non-reentrant checkpointing")
    else:
        config.put(fields, "checkpointing.reentrant", "use_reentrant_gc", config.own.flag("use_reentrant_gc"))


def _no_effect(fields: Fields, config: LlamaFactoryConfig) -> None:
    key = config.hf.written("gradient_checkpointing")
    if key:
        message = (
            f"`{key}: false` has no effect: LLaMA-Factory checkpoints activations "
            "unless `disable_gradient_checkpointing: true`"
        )
        issue = config.section.issue(
            "ignored-key", message, key, severity="warning", on_key=True, suggestion="disable_gradient_checkpointing"
        )
        fields.issues.append(issue)


# The optimizers that LLaMA-Factory makes itself, in the order of its questions (train/trainer_utils.py:527).
FOR_FULL_TRAINING = ("use_galore", "use_apollo", "use_badam")
_OPTIMIZERS = (*FOR_FULL_TRAINING, "use_adam_mini", "use_muon")


def uses_optimizer(key: str) -> When:
    """Whether the optimizer of `key` runs: the first of those that are on, else the Trainer's runs."""

    def holds(config: LlamaFactoryConfig) -> bool:
        is_on = config.training and config.own.flag(key)
        return is_on and next(name for name in _OPTIMIZERS if config.own.flag(name)) == key

    return holds


def is_switched_on(key: str) -> CanWrite:
    """Whether the file switches `key` on."""

    def holds(change: FieldChange) -> bool:
        return bool(as_bool(change.section.get(key)))

    return holds


def read_low_rank(key: str) -> Read:
    """GaLore and APOLLO: the projected optimizer follows `optim` (train/trainer_utils.py:240, 331)."""

    def read(fields: Fields, config: LlamaFactoryConfig) -> None:
        optim = config.hf.word("optim")
        suffix = "_8bit" if "8bit" in optim else ""
        base = "adafactor" if optim == "adafactor" else "adamw"
        config.put(fields, "optimizer.name", key, f"{key.removeprefix('use_')}_{base}{suffix}")

    return read


def write_optimizer(change: FieldChange) -> Written | None:
    """`optim`, where none of LLaMA-Factory's own optimizers takes its place; with an adapter those that are for full
    training are switched off (hparams/finetuning_args.py:616)."""
    given = [key for key in _OPTIMIZERS if change.section.get(key)]
    adapts = change.changes.get("method.kind") == "lora"
    replaceable = FOR_FULL_TRAINING if adapts else ("use_badam",)
    if not isinstance(change.value, str) or any(key not in replaceable for key in given):
        return None
    return {**(dict.fromkeys(given, False) if adapts else {}), "optim": change.value}


def write_evaluation(change: FieldChange) -> Written | None:
    """Off, and nothing held back for it; not where something waits for what it says: stopping early, the best saved,
    predictions on the same data."""
    section = change.section
    needs_evaluation = (
        section.get("early_stopping_steps") or section.get("do_predict") or section.get("save_strategy") == "best"
    )
    if change.value is not False or needs_evaluation:
        return None
    key = "evaluation_strategy" if "evaluation_strategy" in section else "eval_strategy"
    gone = ("do_eval", "load_best_model_at_end", "val_size", "eval_dataset")
    return {key: "no", **dict.fromkeys(gone)}


def served_by(server: str) -> When:
    """Whether vLLM or SGLang answers the requests."""

    def holds(config: LlamaFactoryConfig) -> bool:
        return answers_requests(config) and config.own.word("infer_backend") == server

    return holds


def read_server(fields: Fields, config: LlamaFactoryConfig) -> None:
    """vLLM and SGLang share each layer between the visible cards and fill a share of each (chat/vllm_engine.py:73-82,
    chat/sglang_engine.py:88-93). transformers spreads whole layers over the cards (hparams/parser.py:567, `device_map =
    "auto"`), but those that bitsandbytes quantises only where they are in 4 bits and `quantization_device_map` says so
    (model_utils/quantization.py:192)."""
    backend = config.own.word("infer_backend")
    world = fields.get("parallelism.world_size")
    if not answers_requests(config):
        return
    if backend in SERVERS:
        config.put(fields, "parallelism.engine", "infer_backend", backend)
        config.put(fields, "serving.memory_share", SERVERS[backend], config.own.number(SERVERS[backend]))
        _share_layers(fields, config, backend, world)
    elif _spreads_layers(config) and isinstance(world, int) and world > 1:
        detail = 'LLaMA-Factory spreads the layers over the cards: hparams/parser.py:567, `device_map = "auto"`'
        fields.infer("parallelism.engine", "device_map", detail)


def _spreads_layers(config: LlamaFactoryConfig) -> bool:
    bits = config.own.integer("quantization_bit")
    return bits is None or (bits == 4 and config.own.word("quantization_device_map") == "auto")


def read_server_config(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`vllm_config` goes to vLLM's engine as it is, a mapping or JSON text (hparams/model_args.py:434,
    chat/vllm_engine.py:93). `kv_cache_dtype: fp8` and its kinds keep keys and values in one byte (vLLM 0.33.0
    config/cache.py)."""
    settings = config.own.get("vllm_config")
    if isinstance(settings, str):
        try:
            settings = json.loads(settings)
        except (ValueError, RecursionError):
            return
    dtype = settings.get("kv_cache_dtype") if isinstance(settings, dict) else None
    if isinstance(dtype, str) and dtype.startswith("fp8"):
        config.put(fields, "serving.cache_dtype", "vllm_config", "float8")


def _share_layers(fields: Fields, config: LlamaFactoryConfig, backend: str, world: object) -> None:
    asked = config.own.integer("sglang_tp_size") if backend == "sglang" else None
    cards = asked if asked is not None and asked > 0 else world
    if isinstance(cards, int):
        fields.infer("parallelism.tensor_parallel_size", cards, f"{backend} shares each layer between all cards")
        fields.infer("parallelism.world_size", cards, f"{backend} shares each layer between all cards")


_DTYPES = ("float16", "bfloat16", "float32")


def read_inference_dtype(fields: Fields, config: LlamaFactoryConfig) -> None:
    """vLLM and SGLang load in this dtype. transformers did up to 0.9.3 (model.py reads it as the weights' dtype); since
    0.9.4 it loads the checkpoint's, and the key decides nothing (model/loader.py:155, `torch_dtype = "auto"`)."""
    dtype = config.own.word("infer_dtype")
    if has_server(config):
        _server_dtype(fields, config, dtype)
    elif not config.hf.flag("bf16") and not config.hf.flag("fp16"):
        fields.infer("precision.compute", fields.get("model.weights_dtype"), "matmuls run in the dtype of the weights")


def _server_dtype(fields: Fields, config: LlamaFactoryConfig, dtype: str) -> None:
    """`auto` is the checkpoint's dtype, and half precision for one in fp32 (vLLM 0.33.0 config/model.py)."""
    stored = config.architecture.dtype if config.architecture is not None else UNKNOWN
    wanted = dtype if dtype in _DTYPES else "bfloat16" if stored == "float32" else stored
    for field in ("model.weights_dtype", "precision.compute"):
        config.put(fields, field, "infer_dtype", wanted)
