"""LLaMA-Factory: sequence, attention, checkpointing, loss and optimizer of a v0 file."""

from __future__ import annotations

import memlint.formats.llamafactory.families as own_families
import memlint.memory.families.lookup as families
from memlint.formats.fields import Fields, as_bool
from memlint.formats.llamafactory.config import Config, default_origin
from memlint.run import Origin

_FUSED_LOSS_STAGES = ("pt", "sft")  # model/loader.py:142, `require_logits`
# src/llamafactory/train/sft/trainer.py:108-127: losses that are computed from the logits.
OWN_LOSSES = ("use_dft_loss", "use_eaft_loss", "use_asft_loss")


def apply_sequence(fields: Fields, config: Config) -> None:
    """`cutoff_len` bounds every sequence; packed ones are all that long (data/processor/supervised.py:218)."""
    length = config.own.integer("cutoff_len")
    if length is None or length < 1:
        fields.unknown("sequence.length", f"`cutoff_len: {config.own.get('cutoff_len')!r}` is no whole number >= 1")
    else:
        config.put(fields, "sequence.length", "cutoff_len", length)
    _packing(fields, config)
    rope = config.own.word("rope_scaling")
    if rope:
        config.put(fields, "sequence.rope_scaling", "rope_scaling", rope)
    if config.own.flag("shift_attn") and config.training:
        works = not config.family or config.family in own_families.SHIFT_ATTENTION_MODELS
        config.put(fields, "sequence.shift_attention", "shift_attn", works)
    _pixels(fields, config)
    if config.stage == "ppo" or not config.training:
        config.put(fields, "sequence.max_new_tokens", "max_new_tokens", config.whole("max_new_tokens", 1024))


def _packing(fields: Fields, config: Config) -> None:
    """None means: when pre-training (hparams/parser.py:645); `neat_packing` switches it on (data_args.py:185)."""
    neat = config.own.flag("neat_packing")
    written = config.own.get("packing")
    packing = neat or (config.stage == "pt" if as_bool(written) is None else bool(as_bool(written)))
    if neat:
        config.put(fields, "sequence.packing", "neat_packing", True)
    elif as_bool(written) is not None or "packing" in config.held:
        config.put(fields, "sequence.packing", "packing", packing)
    else:
        fields.put("sequence.packing", packing, default_origin(config.versions, f"stage {config.stage}"))
    config.put(fields, "sequence.neat_packing", "neat_packing", neat)
    if packing and config.stage in ("pt", "sft"):
        fields.infer("sequence.length_is_bound", False, "packed sequences are all `cutoff_len` long")


def _pixels(fields: Fields, config: Config) -> None:
    """hparams/model_args.py:306: 768 * 768 pixels an image, 256 * 256 a frame, 128 frames."""
    if config.architecture is not None and not config.architecture.towers:
        return
    for name, key in (
        ("sequence.image_max_pixels", "image_max_pixels"),
        ("sequence.video_max_pixels", "video_max_pixels"),
        ("sequence.video_max_length", "video_maxlen"),
    ):
        if config.architecture is not None or config.own.written(key):
            config.put(fields, name, key, config.whole(key))


def apply_attention(fields: Fields, config: Config) -> None:
    """configure_attn_implementation (model_utils/attention.py:31)."""
    said = config.own.word("flash_attn")
    origin = config.own.origin("flash_attn")
    if "flash_attn" in config.held:
        fields.unknown("attention.implementation", "`flash_attn` is an interpolation")
    elif config.own.flag("use_unsloth") and config.training:
        fields.infer("attention.implementation", "sdpa", "Unsloth brings its own memory-efficient attention")
    elif config.family in own_families.LOADS_FLASH_3:
        detail = "LLaMA-Factory loads FlashAttention 3 kernels for gpt-oss (model_utils/attention.py:34)"
        fields.infer("attention.implementation", "flash_attention_3", detail)
    elif config.family in own_families.AUTO_IS_FLASH_2_OR_EAGER and said == "auto":
        reason = "gemma2 gets flash_attention_2 where flash-attn is installed, else eager (model_utils/attention.py:46)"
        fields.unknown("attention.implementation", reason)
    elif config.family in own_families.EAGER_UNLESS_FLASH and said in ("auto", "sdpa"):
        fields.infer("attention.implementation", "eager", "LLaMA-Factory forces eager attention for Youtu-VL")
    else:
        _plain_attention(fields, said, origin)


def _plain_attention(fields: Fields, said: str, origin: Origin) -> None:
    names = {
        "disabled": "eager",
        "off": "eager",
        "sdpa": "sdpa",
        "fa2": "flash_attention_2",
        "fa3": "flash_attention_3",
    }
    if said in names:
        fields.put("attention.implementation", names[said], origin)
    elif said == "auto":
        fields.infer("attention.implementation", "sdpa", "`flash_attn: auto` leaves transformers' default, sdpa")
    else:
        fields.unknown("attention.implementation", f"LLaMA-Factory refuses `flash_attn: {said}`")


def apply_checkpointing(fields: Fields, config: Config) -> None:
    """On unless `disable_gradient_checkpointing` (model_utils/checkpointing.py:184); the Trainer can add it again."""
    disabled = config.own.flag("disable_gradient_checkpointing")
    asked = config.hf.flag("gradient_checkpointing")
    if disabled and config.training and config.own.flag("use_unsloth") and config.tuning == "lora":
        _on_in_any_case(fields, config)
        disabled = False
    if config.family in own_families.WITHOUT_CHECKPOINTING and not asked:
        fields.infer("checkpointing.mode", "none", "LLaMA-Factory switches it off for gemma3n")
        return
    if disabled and not asked:
        config.put(fields, "checkpointing.mode", "disable_gradient_checkpointing", "none")
        return
    _checkpointing_mode(fields, config, disabled)
    _reentrant(fields, config, asked)
    if not asked and as_bool(config.hf.get("gradient_checkpointing")) is False and not disabled:
        _no_effect(fields, config)


def _on_in_any_case(fields: Fields, config: Config) -> None:
    """model_utils/unsloth.py:77, get_unsloth_peft_model: `use_gradient_checkpointing: "unsloth"`, whatever was said."""
    key = "disable_gradient_checkpointing"
    message = f"`{key}` has no effect: Unsloth's LoRA models checkpoint their layers in any case"
    fields.issues.append(config.section.issue("ignored-key", message, key, severity="warning", on_key=True))


def _checkpointing_mode(fields: Fields, config: Config, disabled: bool) -> None:
    for key in ("use_unsloth_gc", "use_unsloth"):
        if config.own.flag(key) and not disabled:
            config.put(fields, "checkpointing.mode", key, "unsloth")
            config.put(fields, "checkpointing.offload", key, True)
            return
    if disabled:
        fields.put("checkpointing.mode", "full", config.hf.origin("gradient_checkpointing"))
    else:
        config.put(fields, "checkpointing.mode", "disable_gradient_checkpointing", "full")


def _reentrant(fields: Fields, config: Config, asked: bool) -> None:
    options = config.hf.get("gradient_checkpointing_kwargs")
    said = as_bool(options.get("use_reentrant")) if isinstance(options, dict) and asked else None
    if said is not None:
        fields.put("checkpointing.reentrant", said, config.hf.origin("gradient_checkpointing_kwargs"))
    elif config.own.flag("use_kt"):
        fields.infer("checkpointing.reentrant", False, "KTransformers needs non-reentrant checkpointing")
    else:
        config.put(fields, "checkpointing.reentrant", "use_reentrant_gc", config.own.flag("use_reentrant_gc"))


def _no_effect(fields: Fields, config: Config) -> None:
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


def apply_loss(fields: Fields, config: Config) -> None:
    """apply_liger_kernel (model_utils/liger_kernel.py:31) and the losses of the stages."""
    if not config.training:  # model_utils/liger_kernel.py:37: kernels are for training alone
        fields.infer("loss.kind", "plain", "nothing trains")
        fields.infer("loss.liger_kernels", False, "nothing trains")
        return
    _loss_kind(fields, config)
    if config.stage == "dpo":
        config.put(fields, "loss.preference", "pref_loss", config.own.word("pref_loss") or "sigmoid")
    elif config.stage == "kto":
        fields.infer("loss.preference", "kto", "stage kto")
    if config.stage in ("dpo", "kto"):
        fields.infer("loss.upcast_logits", True, f"train/{config.stage}/trainer.py: `.logits.to(torch.float32)`")
    elif config.stage in ("rm", "ppo"):
        fields.infer("loss.upcast_logits", True, "trl's model with a value head turns its logits into fp32")


def _loss_kind(fields: Fields, config: Config) -> None:
    if config.own.flag("enable_liger_kernel"):
        _liger(fields, config)
    elif "enable_liger_kernel" in config.held:
        fields.unknown("loss.kind", "`enable_liger_kernel` is an interpolation")
    elif config.hf.flag("use_liger_kernel"):
        _liger_of_the_trainer(fields, config)
    elif config.own.flag("use_unsloth"):
        fields.put("loss.kind", "unsloth", config.own.origin("use_unsloth"))
    else:
        config.put(fields, "loss.kind", "enable_liger_kernel", "plain")
        config.put(fields, "loss.liger_kernels", "enable_liger_kernel", False)


def _liger(fields: Fields, config: Config) -> None:
    origin = config.own.origin("enable_liger_kernel")
    if not config.family:
        fields.unknown("loss.kind", "whether Liger supports the model depends on its type, which is not known")
        return
    supported = config.family in own_families.LIGER_MODELS
    kind, reason = (
        _liger_loss(config, "switches Liger's fused loss off")
        if supported
        else ("plain", f"LLaMA-Factory has no Liger kernel for {config.family}")
    )
    fields.put("loss.kind", kind, origin)
    fields.put("loss.liger_kernels", supported, origin)
    fields.put("loss.fallback_reason", reason, origin)


def _liger_of_the_trainer(fields: Fields, config: Config) -> None:
    """Trainer.__init__ patches the model whatever the stage; other stages give it no labels, and so get its logits."""
    origin = config.hf.origin("use_liger_kernel")
    supported = config.architecture is None or families.supports_liger(config.architecture)
    kind, reason = (
        _liger_loss(config, "gives the model no labels")
        if supported
        else ("plain", f"Liger does not support {config.family}")
    )
    fields.put("loss.kind", kind, origin)
    fields.put("loss.liger_kernels", supported and config.stage != "ppo", origin)
    fields.put("loss.fallback_reason", reason, origin)


def _liger_loss(config: Config, otherwise: str) -> tuple[str, str]:
    """The loss under Liger's kernels, and why it is not the fused one. `otherwise`: what LLaMA-Factory does in stages
    that need the logits."""
    if config.stage not in _FUSED_LOSS_STAGES:
        return "plain", f"stage {config.stage} needs the logits: LLaMA-Factory {otherwise}"
    own = next((key for key in OWN_LOSSES if config.own.flag(key) and config.stage == "sft"), "")
    if own:
        return "plain", f"`{own}` computes its loss from the logits"
    if config.family in own_families.LIGER_WITHOUT_FUSED_LOSS:
        return "fused_ce", f"Liger's {config.family} kernels keep the logits"
    return "liger", ""


def apply_optimizer(fields: Fields, config: Config) -> None:
    """create_custom_optimizer (train/trainer_utils.py:527), else the Trainer's."""
    for key, build in (
        ("use_galore", _low_rank),
        ("use_apollo", _low_rank),
        ("use_badam", _badam),
        ("use_adam_mini", _named),
        ("use_muon", _named),
    ):
        if config.own.flag(key) and config.training:
            build(fields, config, key)
            return


def _low_rank(fields: Fields, config: Config, key: str) -> None:
    """GaLore and APOLLO: the projected optimizer follows `optim` (train/trainer_utils.py:240, 331)."""
    name = key.removeprefix("use_")
    optim = config.hf.word("optim")
    suffix = "_8bit" if "8bit" in optim else ""
    base = "adafactor" if optim == "adafactor" else "adamw"
    config.put(fields, "optimizer.name", key, f"{name}_{base}{suffix}")
    config.put(fields, "optimizer.rank", f"{name}_rank", config.whole(f"{name}_rank", 16))
    targets = config.words(f"{name}_target") or ("all",)
    config.put(fields, "optimizer.targets", f"{name}_target", ("all-linear",) if targets == ("all",) else targets)
    config.put(fields, "optimizer.layerwise", f"{name}_layerwise", config.own.flag(f"{name}_layerwise"))
    if name == "apollo":
        config.put(fields, "optimizer.projection", "apollo_proj", config.own.word("apollo_proj"))


def _badam(fields: Fields, config: Config, key: str) -> None:
    config.put(fields, "optimizer.badam_mode", "badam_mode", config.own.word("badam_mode") or "layer")


def _named(fields: Fields, config: Config, key: str) -> None:
    config.put(fields, "optimizer.name", key, key.removeprefix("use_"))
