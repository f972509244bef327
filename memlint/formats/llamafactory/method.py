"""LLaMA-Factory: what trains, and which models are loaded with it (model/adapter.py, train/*/workflow.py)."""

from __future__ import annotations

from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Read, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig, default_origin
from memlint.formats.llamafactory.families import COMPOSITE_MODELS, PART_THAT_TRAINS
from memlint.formats.llamafactory.model import other_model
from memlint.formats.llamafactory.training import FOR_FULL_TRAINING
from memlint.run import Model

_PREFERENCE = ("dpo", "kto")
_WITHOUT_REFERENCE = ("orpo", "simpo")  # hparams/finetuning_args.py:593, `use_ref_model`
_STAGES = frozenset({"pt", "sft", "rm", "ppo", "dpo", "kto", "orpo"})  # LLaMA-Factory 0.9.5 and before 0.8


def read_stage(fields: Fields, config: LlamaFactoryConfig) -> None:
    """The training stage; `predict` or `export` for a file that trains nothing, whatever `stage` it names."""
    predicts = "export" if config.role == "export" else "predict"
    config.put(fields, "method.stage", "stage", config.stage if config.training else predicts)
    if config.training and config.stage not in _STAGES:
        fields.put("stack.unmodelled", f"the stage `{config.stage}` of a fork", config.own.origin("stage"))
    if config.training and config.splits_sequences:
        split = "sequences that 360-LLaMA-Factory splits over GPUs"
        fields.put("stack.unmodelled", split, config.section.origin("sequence_parallel_size"))
    elif config.training and config.other_engine:
        engine = f"how the program that takes `{config.other_engine}` divides the model"
        fields.put("stack.unmodelled", engine, config.section.origin(config.other_engine))


def read_kind(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`finetuning_type`, where anything trains."""
    if config.training:
        config.put(fields, "method.kind", "finetuning_type", config.tuning)
    else:
        fields.infer("method.kind", "none", "nothing trains")


def write_kind(change: FieldChange) -> Written | None:
    """hparams/parser.py:237: a quantised model trains with an adapter; finetuning_args.py:616: LoRA excludes GaLore."""
    quantized = change.run.model.quantization.method != "none" and "model.quantization" not in change.changes
    kinds = ("lora", "oft") if quantized else ("lora", "freeze", "full", "oft")
    if change.value not in kinds:
        return None
    refused = any(change.section.get(key) for key in FOR_FULL_TRAINING) and "optimizer.name" not in change.changes
    return None if change.value == "lora" and refused else {"finetuning_type": change.value}


def read_alpha(fields: Fields, config: LlamaFactoryConfig) -> None:
    """hparams/finetuning_args.py:587: `lora_alpha or lora_rank * 2`."""
    if config.own.integer("lora_alpha") or "lora_alpha" in config.unresolved:
        config.put(fields, "method.alpha", "lora_alpha", config.integer("lora_alpha"))
    else:
        origin = default_origin(config.versions, "lora_alpha = 2 * lora_rank")
        fields.put("method.alpha", 2 * config.integer("lora_rank", 8), origin)


def read_dropout(fields: Fields, config: LlamaFactoryConfig) -> None:
    """`lora_dropout`; train/dpo/trainer.py:51, train/kto/trainer.py: disable_dropout=True."""
    if config.stage in _PREFERENCE:
        fields.infer("method.dropout", 0.0, f"the {config.stage} trainer switches dropout off")
    else:
        config.put(fields, "method.dropout", "lora_dropout", float(config.own.number("lora_dropout") or 0))


def read_saved_modules(fields: Fields, config: LlamaFactoryConfig) -> None:
    """A resized vocabulary trains both embeddings unless `additional_target` is given (model/adapter.py:246)."""
    named = config.words("additional_target")
    config.put(fields, "method.modules_to_save", "additional_target", named)
    grows = config.own.flag("resize_vocab") or bool(fields.get("model.new_special_tokens", 0))
    if grows and not named:
        detail = "the vocabulary is resized: LLaMA-Factory trains the embeddings (model/adapter.py:246)"
        fields.infer("method.modules_to_save", ("embed_tokens", "lm_head"), detail)


def freezes(config: LlamaFactoryConfig) -> bool:
    """Whether a few layers train and the rest is frozen (_setup_freeze_tuning, model/adapter.py:57)."""
    return config.training and (config.tuning == "freeze" or config.own.flag("use_llama_pro"))


def read_llama_pro(fields: Fields, config: LlamaFactoryConfig) -> None:
    """LLaMA Pro with LoRA adapts its expanded blocks alone (model_utils/misc.py:67, find_expanded_modules)."""
    config.put(fields, "method.use_llama_pro", "use_llama_pro", config.own.flag("use_llama_pro"))
    trained = config.integer("freeze_trainable_layers", 2)
    layers = len(config.architecture.layer_type_ids) if config.architecture is not None else 0
    if config.tuning == "lora" and trained > 0 and layers and layers % trained == 0:
        stride = layers // trained
        blocks = tuple(range(stride - 1, layers + stride - 1, stride))
        fields.infer("method.layers_to_transform", blocks, f"every {stride}th layer is an expanded block")


def read_frozen_part(key: str) -> Read:
    """get_forbidden_modules (model_utils/visual.py:173): the switches work for registered models only."""

    def read(fields: Fields, config: LlamaFactoryConfig) -> None:
        towers = config.architecture is not None and bool(config.architecture.towers)
        if towers and PART_THAT_TRAINS.get(config.family, config.family) not in COMPOSITE_MODELS:
            reason = f"LLaMA-Factory does not know the parts of `{config.family}`"
            fields.infer(f"method.{key}", False, reason)
        else:
            config.put(fields, f"method.{key}", key, config.own.flag(key))

    return read


def needs_reference(config: LlamaFactoryConfig) -> bool:
    """Whether the loss compares with a reference model."""
    if config.stage == "dpo":
        return config.own.word("pref_loss") not in _WITHOUT_REFERENCE
    return config.stage in ("kto", "ppo") or (config.stage == "sft" and config.own.flag("use_asft_loss"))


def read_reference(fields: Fields, config: LlamaFactoryConfig) -> None:
    """create_ref_model (train/trainer_utils.py:116): a named one, LoRA's own base, or a second copy (OFT too)."""
    name = config.text("ref_model")
    if not needs_reference(config):
        fields.infer("method.reference_model", "none", "this stage and loss compare with no reference")
    elif name:
        config.put(fields, "method.reference_model", "ref_model", "named")
        _load(fields, config, name, config.own.integer("ref_model_quantization_bit"))
    elif config.tuning == "lora":
        fields.infer("method.reference_model", "shared", "LoRA: the base with its adapter switched off")
    else:
        fields.infer("method.reference_model", "copy", "without `ref_model` the model is loaded a second time")


def write_reference(change: FieldChange) -> Written | None:
    """Nothing to write: with adapters the base is the reference (train/trainer_utils.py:137)."""
    shares = change.value == "shared" and change.changes.get("method.kind") == "lora"
    return {} if shares and not change.section.get("ref_model") else None


def has_reward_model(config: LlamaFactoryConfig) -> bool:
    """Whether a reward model scores the generated answers (train/ppo/workflow.py)."""
    return config.training and config.stage == "ppo"


def read_reward_model(fields: Fields, config: LlamaFactoryConfig) -> None:
    """create_reward_model (train/trainer_utils.py:151)."""
    kind = config.own.word("reward_model_type") or "lora"
    config.put(fields, "method.reward_model", "reward_model_type", kind)
    name = config.text("reward_model")
    if kind == "full" and name:
        _load(fields, config, name, config.own.integer("reward_model_quantization_bit"))


def _load(fields: Fields, config: LlamaFactoryConfig, name: str, bits: int | None) -> None:
    loaded: tuple[Model, ...] = (*fields.get("method.extra_models", ()), other_model(config, name, bits))
    fields.infer("method.extra_models", loaded, _sizes(config, loaded))


def _sizes(config: LlamaFactoryConfig, loaded: tuple[Model, ...]) -> str:
    """Where the sizes of the other models come from."""
    policy = config.text("model_name_or_path")
    unread = [str(one.name) for one in loaded if one.architecture is config.architecture and one.name != policy]
    taken = f"; no size of {' and '.join(unread)} is known: taken to be the policy's" if unread else ""
    return f"loaded beside the trained model{taken}"
