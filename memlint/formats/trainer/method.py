"""Trainer files: what of the model trains, all of it or adapters, and what the adapters target."""

from __future__ import annotations

from collections.abc import Container

from memlint.formats.fields import Fields, as_bool, as_int, as_words, interpolated
from memlint.formats.target_patterns import put_targets, ranks_by_module
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.families import DEFAULT_LORA_TARGETS, MOST_LORA_TARGETS
from memlint.run import Origin


def read_method(fields: Fields, config: TrainerConfig) -> None:
    """LoRA by TRL's `use_peft` or a script's own keys; full training otherwise."""
    key = adapter_key(config)
    if not key and (flag := _flag_about_adapters(config)):
        program = config.section.document.start.program.entry if config.section.document.start else ""
        reason = f"what `{program}` does with `{flag}` is the program's to say, which is not in the repository"
        fields.unknown("method.kind", reason)
        return
    if not key and _is_unnamed(config):
        fields.unknown("method.kind", "which program is started is not known, and its code says whether adapters train")
        return
    if not key and (other := next(filter(config.is_on, _OTHER_ADAPTERS), "")):
        fields.unknown("method.kind", f"`{other}` asks for an adapter that memlint does not model")
        return
    if not key:
        fields.put("method.kind", "full", config.args.origin("use_peft"))
        return
    fields.put("method.kind", "lora", config.section.origin(key))
    fields.put("method.adapter_dtype", "float32", Origin("default", detail="peft 0.21 autocast_adapter_dtype"))


def _flag_about_adapters(config: TrainerConfig) -> str:
    """A flag about adapters of a program that is not in the repository, which memlint doesn't know: `--peft_path` names
    one that is trained on (Chinese-LLaMA-Alpaca's run_clm_sft_with_peft.py). "" where a known key says what trains."""
    start, value = config.section.document.start, config.section.value
    if start is None or not start.program.is_foreign or any(key in value for key in _SAY_WHAT_TRAINS):
        return ""
    given = (name for name, one in value.items() if one not in (None, False, "", "none", "None", "False", "false"))
    return next((name for name in given if not _ADAPTER_WORDS.isdisjoint(str(name).lower().split("_"))), "")


def _is_unnamed(config: TrainerConfig) -> bool:
    """Whether a command leaves open which program it starts (`scripts/$NAME`), and no key says what trains."""
    start = config.section.document.start
    says = any(key in config.section.value for key in _SAY_WHAT_TRAINS)
    return start is not None and start.program.is_foreign and interpolated(start.program.entry, True) and not says


_SAY_WHAT_TRAINS = ("use_peft", "use_lora", "lora_enable", "use_qlora", "train_mode", "full_finetune")
# Scripts' switches for other methods of PEFT (0.21 utils/peft_types.py): a few parameters train, never all.
_OTHER_ADAPTERS = (
    *("use_ia3", "use_prompt_tuning", "use_prefix_tuning", "use_p_tuning", "use_ptuning", "use_vera", "use_oft"),
    *("use_boft", "use_loha", "use_lokr", "use_adalora"),
)
_ADAPTER_WORDS = frozenset({"peft", "lora", "qlora", "adapter", "adapters"})


def trains_adapter(config: TrainerConfig) -> bool:
    return bool(adapter_key(config))


def adapter_key(config: TrainerConfig) -> str:
    """The key that makes this an adapter run; `use_peft: false` and `train_mode: full` say no to all others."""
    value = config.section.value
    for key in ("use_peft", "use_lora", "lora_enable", "use_qlora"):
        wants = as_bool(value.get(key))
        if wants is not None:
            return key if wants else ""
    if training_mode(config):
        return training_mode_key(config) if training_mode(config) in ("lora", "qlora") else ""
    if config.is_on("full_finetune"):
        return ""
    named = config.first("lora_r", "lora_rank", "lora_target_modules")
    if not named and config.section.document.start is None and has_words_of_lora_config(value):
        return "r"
    return named or ("bits" if _quantises(config) else "")


def has_words_of_lora_config(keys: Container[object]) -> bool:
    """Whether a script hands its keys to LoraConfig as they are (peft 0.21 tuners/lora/config.py: `r`, `lora_alpha`,
    `target_modules`): no command line has them, where TRL says `lora_r`."""
    return "r" in keys and ("lora_alpha" in keys or "target_modules" in keys) and "lora_r" not in keys


def _quantises(config: TrainerConfig) -> bool:
    """Whether a script's `bits` says that weights are quantised, so that only an adapter can train: 16 are as they are
    (LLaVA's default), but in scripts that also have a switch for full training."""
    bits = config.section.value.get("bits")
    return bool(config.first("bits")) and (as_int(bits) != 16 or "full_finetune" in config.section.value)


def training_mode(config: TrainerConfig) -> str:
    """A script's word for what trains (`train_mode`, `method`): full, lora, qlora; "" where there is none."""
    word = config.text("train_mode")[0].lower()
    return word if word in ("full", "lora", "qlora") else ""


def training_mode_key(config: TrainerConfig) -> str:
    return "train_mode" if "train_mode" in config.section.value else "method"


def read_layers(fields: Fields, config: TrainerConfig) -> None:
    """`layers_to_transform` of LoraConfig: a number, or a list of them (peft 0.21.2 tuners/lora/config.py)."""
    key = "lora_layers_to_transform"
    given = config.section.value.get(key)
    layers = given if isinstance(given, list) else [given]
    if given is not None and all(isinstance(layer, int) for layer in layers):
        fields.put("method.layers_to_transform", tuple(layers), config.section.origin(key))


def read_rank_pattern(fields: Fields, config: TrainerConfig) -> None:
    """`lora_rank_pattern`: ranks of single modules."""
    key = "lora_rank_pattern"
    pattern = ranks_by_module(config.section.value.get(key))
    if pattern:
        fields.put("method.rank_pattern", pattern, config.section.origin(key))


def read_targets(fields: Fields, config: TrainerConfig) -> None:
    """`lora_target_modules`; without it peft's default of the family, or for scripts with `lora_rank` every linear."""
    key = config.args.written("lora_target_modules") or ""
    value = config.section.value.get(key) if key else None
    if as_words(value):
        put_targets(fields, value, config.section.origin(key), config.architecture)
    elif config.first("lora_rank", "bits") and not config.first("lora_r"):
        fields.infer("method.targets", ("all-linear",), "scripts with `lora_rank` target every linear layer")
    elif (start := config.section.document.start) is not None and start.program.is_foreign:
        fields.unknown(
            "method.targets", f"`{start.program.entry}` says what gets an adapter, which is not in the repository"
        )
    else:
        family = getattr(config.architecture, "family", "")
        targets = DEFAULT_LORA_TARGETS.get(family, MOST_LORA_TARGETS)
        fields.put(
            "method.targets", targets, Origin("default", detail=f"peft 0.21 targets for {family or 'most models'}")
        )
