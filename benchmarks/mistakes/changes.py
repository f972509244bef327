"""Plausible mistakes: what people get wrong in a configuration, as changes of one that works.

Each operator draws from a framework's own list of fields, so that it reaches keys that the originals do not have.
Whether a change is a mistake is not decided here: the framework's judge says so.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from benchmarks.mistakes.fields import Field

Place = tuple[str, ...]


class Change(NamedTuple):
    """`kind` names the operator. `removed` goes first, then `place` gets `value` (nowhere where it is empty)."""

    kind: str
    place: Place = ()
    value: Any = None
    removed: tuple[Place, ...] = ()
    further: tuple[tuple[Place, Any], ...] = ()


# What one thing is called in one place or another.
SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("max_length", "max_len", "max_seq_length", "max_seq_len", "cutoff_len", "sequence_len", "model_max_length"),
    ("lora_r", "lora_rank", "rank", "lora_dim"),
    ("lora_target_modules", "lora_target", "target_modules", "lora_targets"),
    ("per_device_train_batch_size", "micro_batch_size", "train_batch_size", "batch_size", "per_gpu_batch_size"),
    ("train_micro_batch_size_per_gpu", "train_micro_batch_size", "micro_batch_size", "micro_batch_size_per_gpu"),
    ("gradient_accumulation_steps", "grad_accumulation_steps", "accumulation_steps", "gradient_accumulation"),
    ("num_train_epochs", "num_epochs", "epochs", "n_epochs", "train_epochs"),
    ("learning_rate", "lr"),
    ("lr_scheduler_type", "lr_scheduler", "scheduler", "lr_schedule", "scheduler_type"),
    ("optim", "optimizer", "optimiser"),
    ("model_name_or_path", "base_model", "model_name", "model", "model_path"),
    ("gradient_checkpointing", "use_gradient_checkpointing", "grad_checkpointing", "gradient_checkpoint"),
    ("attn_implementation", "attention_implementation", "attn_impl", "flash_attn", "use_flash_attention_2"),
    ("max_grad_norm", "gradient_clipping", "grad_clip", "max_gradient_norm"),
    ("eval_strategy", "evaluation_strategy", "eval_stratergy"),
    ("output_dir", "out_dir", "output_path", "save_dir"),
    ("dtype", "torch_dtype", "compute_dtype"),
    ("load_in_4bit", "use_4bit", "load_4bit", "quantization_bit"),
    ("dataset", "datasets", "dataset_name", "train_dataset"),
    ("warmup_steps", "num_warmup_steps", "warm_up_steps", "lr_warmup_steps"),
    ("weight_decay", "wd", "adam_weight_decay"),
    ("finetuning_type", "fine_tuning_type", "tuning_type", "finetune_type"),
    ("bf16", "bfloat16", "use_bf16"),
    ("zero_optimization", "zero", "zero_config", "zero_optimisation"),
    ("stage", "zero_stage"),
    ("offload_optimizer", "offload_optim", "cpu_offload_optimizer", "optimizer_offload"),
    ("offload_param", "offload_params", "param_offload"),
    ("num_processes", "nproc_per_node", "num_gpus", "num_procs"),
    ("fsdp_transformer_layer_cls_to_wrap", "fsdp_transformer_cls_names_to_wrap", "transformer_layer_cls_to_wrap"),
    ("fsdp_sharding_strategy", "sharding_strategy", "fsdp_strategy"),
    ("mixed_precision", "precision", "mixed-precision"),
)
_WORDS: Mapping[type, tuple[Any, ...]] = {
    int: ("many", -1, 0, 1.5, [4], True, "auto", -8, {"value": 4}),
    float: ("high", -0.1, 1.5, 1e4, [0.1], "auto", 25, -1.0),
    bool: ("maybe", 2, [True], "enable", {"enabled": True}),
    list: (7, {"a": 1}, True),
    dict: ("reentrant", [1], 3),
}
MODEL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "attn_implementation": (
        *("flash_attn_2", "flash_attention2", "flash-attention-3", "fa2", "flash_attention", "flash", "xformers"),
        *("Sdpa", "sdpa_attention", "flashattention_2", "mem_efficient"),
    ),
    "dtype": ("bf16", "fp16", "half", "bfloat", "fp32", "torch.bfloat16", "float8", "bflaot16", "float", "int4"),
    "template": ("lama3", "qwen2", "qwen2.5", "llama-3", "chat_ml", "alpaca2", "mistal", "qwen_3", "llama31"),
    "flash_attn": ("flash_attention_2", "fa3", "flash", "on", "fa-2", "xformers", "true"),
    "lora_target": (
        *(
            "q_proj v_proj",
            "query_key_value",
            "c_attn",
            "q_porj,v_proj",
            "W_pack",
            "attn.q",
            "query,value",
            "all_linear",
        ),
        "qproj,vproj",
    ),
    "lora_target_modules": (
        *(["query_key_value"], ["c_attn", "c_proj"], ["W_pack"], ["q_porj"], ["query", "value"], ["q"]),
        *(["qkv_proj"], ["attn.c_attn"], ["all"], ["Wqkv", "out_proj"]),
    ),
    "lora_dropout": (1.5, -0.1, 5, 10, "none"),
    "lora_r": (0, -8, "8x", 8.5),
    "lora_rank": (0, -8, "8x"),
    "freeze_trainable_modules": ("attention", "self_attention", "q_proj", "mlp,attn", "lm_heads"),
    "fsdp_transformer_layer_cls_to_wrap": (
        *("LlamaDecoderLayers", "LlamaLayer", "LLamaDecoderLayer", "Qwen2Decoderlayer", "llama", "transformer"),
        *("LlamaDecodeLayer", "LlamaDecoderLayer;Qwen2DecoderLayer", "Qwen2DecodrLayer", "DecoderLayer"),
    ),
    "learning_rate": (-1e-5, "2e-5x", -1, "fast"),
}


def applied(content: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The configuration after the change; a renamed key keeps its place in the file."""
    value = copy.deepcopy(dict(content))
    if change.place and len(change.removed) == 1 and change.place[:-1] == change.removed[0][:-1]:
        return _renamed(value, change.removed[0], change.place[-1], change.value)
    for place in change.removed:
        _owner(value, place).pop(place[-1], None)
    for place, item in ((change.place, change.value), *change.further):
        if place:
            _owner(value, place)[place[-1]] = copy.deepcopy(item)
    return value


def _owner(value: dict[str, Any], place: Place) -> dict[str, Any]:
    for step in place[:-1]:
        value = value.setdefault(step, {})
    return value


def _renamed(value: dict[str, Any], place: Place, name: str, item: Any) -> dict[str, Any]:
    owner = _owner(value, place)
    kept = [(name, copy.deepcopy(item)) if key == place[-1] else (key, old) for key, old in owner.items()]
    owner.clear()
    owner.update(kept)
    return value


def candidates(
    content: dict[str, Any],
    fields: Mapping[Place, Field],
    options: Mapping[Place, tuple[Any, ...]],
    draw: random.Random,
) -> Iterator[Change]:
    """Every operator's changes of one original; `options` are values that refuse each other in pairs."""
    yield from _misspelt(content, draw)
    yield from _synonyms(content)
    yield from _misspelt_additions(content, fields, draw)
    yield from _values(content, fields, draw)
    yield from _of_the_model(content, fields)
    yield from (Change("missing", (), None, ((key,),)) for key in content)
    yield from _pairs(options, draw)


def _places(content: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    for key, value in content.items():
        yield (*above, key), value
        if isinstance(value, dict):
            yield from _places(value, (*above, key))


def slip(word: str, draw: random.Random) -> str:
    """One slip of the fingers: a letter left out, doubled, swapped with its neighbour or replaced, or a lost `_`."""
    at = draw.randrange(1, max(len(word) - 1, 2))
    kind = draw.choice(("drop", "double", "swap", "replace", "separator"))
    if kind == "drop":
        return word[:at] + word[at + 1 :]
    if kind == "double":
        return word[:at] + word[at] + word[at:]
    if kind == "swap":
        return word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    if kind == "separator" and "_" in word:
        return word.replace("_", draw.choice(("-", "")), 1)
    return word[:at] + draw.choice("aeionrst") + word[at + 1 :]


def _misspelt(content: dict[str, Any], draw: random.Random) -> Iterator[Change]:
    for place, value in _places(content):
        wrong = slip(place[-1], draw)
        if wrong != place[-1] and len(place[-1]) > 3:
            yield Change("misspelt key", (*place[:-1], wrong), value, (place,))


def _synonyms(content: dict[str, Any]) -> Iterator[Change]:
    for place, value in _places(content):
        for group in SYNONYMS:
            if place[-1] in group:
                others = (name for name in group if name != place[-1])
                yield from (Change("another's key", (*place[:-1], name), value, (place,)) for name in others)


def _misspelt_additions(
    content: dict[str, Any], fields: Mapping[Place, Field], draw: random.Random
) -> Iterator[Change]:
    new = [place for place in sorted(fields) if place not in dict(_places(content)) and len(place[-1]) > 5]
    for place in draw.sample(new, min(40, len(new))):
        wrong = slip(place[-1], draw)
        if wrong != place[-1]:
            yield Change("misspelt option", (*place[:-1], wrong), fields[place].usual)


def _values(content: dict[str, Any], fields: Mapping[Place, Field], draw: random.Random) -> Iterator[Change]:
    present = [place for place in sorted(fields) if place in dict(_places(content))]
    absent = [place for place in sorted(fields) if place not in present]
    for place in (*present, *draw.sample(absent, min(50, len(absent)))):
        field = fields[place]
        for word in draw.sample(field.choices, min(2, len(field.choices))):
            yield Change("misspelt value", place, slip(str(word), draw) if len(str(word)) > 2 else f"{word}{word}")
        if field.choices:
            yield Change("unknown value", place, draw.choice(("default", "best", "fast", "standard", "on")))
        wrong = _WORDS.get(field.kind, ())
        yield from (Change("wrong kind or range", place, value) for value in draw.sample(wrong, min(3, len(wrong))))


def _of_the_model(content: dict[str, Any], fields: Mapping[Place, Field]) -> Iterator[Change]:
    known = {*fields, *(place for place, _ in _places(content))}
    for place in sorted(known):
        for name, values in MODEL_VALUES.items():
            if place[-1] in (name, name.removeprefix("fsdp_")):
                yield from (Change("value for the model", place, value) for value in values)


def _pairs(options: Mapping[Place, tuple[Any, ...]], draw: random.Random) -> Iterator[Change]:
    choices = [(place, value) for place, values in sorted(options.items()) for value in values]
    for _ in range(60 if choices else 0):
        one, other = draw.sample(choices, 2)
        if one[0] != other[0]:
            yield Change("combination", *one, further=(other,))
