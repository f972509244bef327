"""LLaMA-Factory: what trains, and which models stand beside it (model/adapter.py, train/*/workflow.py)."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.llamafactory.config import Config, default_origin
from memlint.formats.llamafactory.families import COMPOSITE_MODELS
from memlint.formats.llamafactory.model import other_model
from memlint.run import Model

_PREFERENCE = ("dpo", "kto")
_WITHOUT_REFERENCE = ("orpo", "simpo")  # hparams/finetuning_args.py:593, `use_ref_model`


def apply_method(fields: Fields, config: Config) -> None:
    config.put(fields, "method.stage", "stage", _stage(config))
    if not config.training:
        fields.infer("method.kind", "none", "nothing trains")
        return
    config.put(fields, "method.kind", "finetuning_type", config.tuning)
    if config.tuning in ("lora", "oft"):
        _adapter(fields, config)
    if config.tuning == "freeze" or config.own.flag("use_llama_pro"):
        _freeze(fields, config)
    _towers(fields, config)
    _other_models(fields, config)


def _stage(config: Config) -> str:
    return config.stage if config.training else {"export": "export"}.get(config.role, "predict")


def _adapter(fields: Fields, config: Config) -> None:
    """_setup_lora_tuning (model/adapter.py:147-310)."""
    lora = config.tuning == "lora"
    target = "lora_target" if lora else "oft_target"
    names = config.words(target)
    config.put(fields, "method.targets", target, ("all-linear",) if names == ("all",) else names)
    config.put(fields, "method.modules_to_save", "additional_target", config.words("additional_target"))
    if lora:
        _lora(fields, config)
    else:
        config.put(fields, "method.rank", "oft_rank", config.whole("oft_rank"))
        config.put(fields, "method.oft_block_size", "oft_block_size", config.whole("oft_block_size", 32))
        config.put(fields, "method.dropout", "module_dropout", float(config.own.number("module_dropout") or 0))
    _resized(fields, config)


def _lora(fields: Fields, config: Config) -> None:
    rank = config.whole("lora_rank", 8)
    config.put(fields, "method.rank", "lora_rank", rank)
    if config.own.integer("lora_alpha"):  # hparams/finetuning_args.py:587: `lora_alpha or lora_rank * 2`
        config.put(fields, "method.alpha", "lora_alpha", config.whole("lora_alpha"))
    else:
        fields.put("method.alpha", 2 * rank, default_origin(config.versions, "lora_alpha = 2 * lora_rank"))
    if config.stage in _PREFERENCE:  # train/dpo/trainer.py:51, train/kto/trainer.py: disable_dropout=True
        fields.infer("method.dropout", 0.0, f"the {config.stage} trainer switches dropout off")
    else:
        config.put(fields, "method.dropout", "lora_dropout", float(config.own.number("lora_dropout") or 0))
    config.put(fields, "method.use_dora", "use_dora", config.own.flag("use_dora"))
    config.put(fields, "method.use_rslora", "use_rslora", config.own.flag("use_rslora"))


def _resized(fields: Fields, config: Config) -> None:
    """A resized vocabulary trains both embeddings unless `additional_target` is given (model/adapter.py:246)."""
    grows = config.own.flag("resize_vocab") or bool(fields.get("model.new_special_tokens", 0))
    if grows and not config.words("additional_target"):
        detail = "the vocabulary is resized: LLaMA-Factory trains the embeddings (model/adapter.py:246)"
        fields.infer("method.modules_to_save", ("embed_tokens", "lm_head"), detail)


def _freeze(fields: Fields, config: Config) -> None:
    """_setup_freeze_tuning (model/adapter.py:57) and LLaMA-Pro's expanded blocks."""
    layers = config.whole("freeze_trainable_layers", 2)
    config.put(fields, "method.freeze_trainable_layers", "freeze_trainable_layers", layers)
    modules = config.words("freeze_trainable_modules") or ("all",)
    config.put(fields, "method.freeze_trainable_modules", "freeze_trainable_modules", modules)
    extra = config.words("freeze_extra_modules")
    config.put(fields, "method.freeze_extra_modules", "freeze_extra_modules", extra)
    config.put(fields, "method.use_llama_pro", "use_llama_pro", config.own.flag("use_llama_pro"))
    if config.tuning == "lora" and config.architecture is not None:
        _expanded(fields, layers, len(config.architecture.layer_type_ids))


def _expanded(fields: Fields, trained: int, layers: int) -> None:
    """LLaMA Pro with LoRA adapts its expanded blocks alone (model_utils/misc.py:67, find_expanded_modules)."""
    if trained > 0 and layers and layers % trained == 0:
        stride = layers // trained
        blocks = tuple(range(stride - 1, layers + stride - 1, stride))
        fields.infer("method.layers_to_transform", blocks, f"every {stride}th layer is an expanded block")


def _towers(fields: Fields, config: Config) -> None:
    """get_forbidden_modules (model_utils/visual.py:173): the switches work for registered models only."""
    keys = ("freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model")
    towers = config.architecture is not None and bool(config.architecture.towers)
    if towers and config.family not in COMPOSITE_MODELS:
        for key in keys:
            fields.infer(f"method.{key}", False, f"LLaMA-Factory does not know the parts of `{config.family}`")
        return
    for key in keys:
        config.put(fields, f"method.{key}", key, config.own.flag(key))


def _other_models(fields: Fields, config: Config) -> None:
    extra: list[Model] = []
    _reference(fields, config, extra)
    if config.stage == "ppo":
        _reward(fields, config, extra)
    if extra:
        fields.infer("method.extra_models", tuple(extra), _beside(config, extra))


def _beside(config: Config, extra: list[Model]) -> str:
    """Where the sizes of the other models come from."""
    policy = config.text("model_name_or_path")
    unread = [str(one.name) for one in extra if one.architecture is config.architecture and one.name != policy]
    taken = f"; no size of {' and '.join(unread)} is known: taken to be the policy's" if unread else ""
    return f"loaded beside the trained model{taken}"


def needs_reference(config: Config) -> bool:
    if config.stage == "dpo":
        return config.own.word("pref_loss") not in _WITHOUT_REFERENCE
    return config.stage in ("kto", "ppo") or (config.stage == "sft" and config.own.flag("use_asft_loss"))


def _reference(fields: Fields, config: Config, extra: list[Model]) -> None:
    """create_ref_model (train/trainer_utils.py:116): a named one, LoRA's own base, or a second copy (OFT too)."""
    if not needs_reference(config):
        fields.infer("method.reference_model", "none", "this stage and loss compare with no reference")
    elif config.text("ref_model"):
        config.put(fields, "method.reference_model", "ref_model", "named")
        extra.append(other_model(config, config.text("ref_model"), config.own.integer("ref_model_quantization_bit")))
    elif config.tuning == "lora":
        fields.infer("method.reference_model", "shared", "LoRA: the base with its adapter switched off")
    else:
        fields.infer("method.reference_model", "copy", "without `ref_model` the model is loaded a second time")


def _reward(fields: Fields, config: Config, extra: list[Model]) -> None:
    """create_reward_model (train/trainer_utils.py:151)."""
    kind = config.own.word("reward_model_type") or "lora"
    config.put(fields, "method.reward_model", "reward_model_type", kind)
    if kind == "full" and config.text("reward_model"):
        bits = config.own.integer("reward_model_quantization_bit")
        extra.append(other_model(config, config.text("reward_model"), bits))
