"""What a Trainer or TRL file probably meant: keys that others use for an argument, and words that no library takes.

TRL's own scripts drop keys that they do not know (trl 1.16.0 scripts/sft.py:144, `fail_with_unknown_args=False`), and
HfArgumentParser refuses them. A script may have fields of its own, so a key that the repository's Python declares is
left alone, and so is every key of a file where many belong to no known dataclass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.base import ConfigReader, Issue
from memlint.formats.fields import as_bool, as_number, interpolated
from memlint.formats.schema.suggest import distance, nearest, normal
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.recognise import SCHEMA

# Arguments of transformers (training_args.py): no script has a field of its own for what they say.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "per_device_train_batch_size": (
        *("micro_batch_size", "train_batch_size", "batch_size", "per_gpu_batch_size", "micro_batch_size_per_gpu"),
        "train_micro_batch_size_per_gpu",
    ),
    "gradient_accumulation_steps": (
        *("grad_accumulation_steps", "accumulation_steps", "gradient_accumulation", "grad_accum_steps", "grad_accum"),
    ),
    "num_train_epochs": ("num_epochs", "epochs", "n_epochs", "train_epochs", "nb_epochs"),
    "learning_rate": ("lr",),
    "lr_scheduler_type": ("lr_scheduler", "scheduler", "lr_schedule", "scheduler_type"),
    "optim": ("optimizer", "optimiser"),
    "gradient_checkpointing": ("use_gradient_checkpointing", "grad_checkpointing", "gradient_checkpoint"),
    "max_grad_norm": ("gradient_clipping", "grad_clip", "max_gradient_norm", "clip_grad"),
    "output_dir": ("out_dir", "output_path", "save_dir"),
    "warmup_steps": ("num_warmup_steps", "warm_up_steps", "lr_warmup_steps"),
    "weight_decay": ("wd", "adam_weight_decay"),
    "bf16": ("bfloat16", "use_bf16"),
    "fp16": ("use_fp16",),
}
# A name that no release of transformers has -> the argument.
OTHER_NAMES: Mapping[str, str] = {other: key for key, others in _ARGUMENTS.items() for other in others}
# Arguments of TRL's ModelConfig and of its trainers' configurations.
_TRL_ALIASES: Mapping[str, tuple[str, ...]] = {
    "model_name_or_path": ("base_model", "model_name", "model_path", "model_id", "model"),
    "max_length": ("max_len", "max_seq_len", "max_seq_length", "cutoff_len", "sequence_len", "model_max_length"),
    "lora_r": ("lora_rank", "rank", "lora_dim"),
    "lora_target_modules": ("target_modules", "lora_target", "lora_targets"),
    "attn_implementation": (
        *("attention_implementation", "attn_impl", "flash_attn", "use_flash_attention_2", "use_flash_attn"),
    ),
    "load_in_4bit": ("use_4bit", "load_4bit"),
    "neftune_noise_alpha": ("neftune_alpha", "neft_alpha"),
    "vllm_gpu_memory_utilization": ("vllm_gpu_utilization", "vllm_memory_utilization"),
    "dtype": ("torch_dtype", "compute_dtype"),
}
# Names too short for a comparison by letters: whoever swaps or drops one letter of these means nothing else.
_SHORT = ("seed", "optim", "bf16", "fp16")
_MOST_UNKNOWN = 3  # a file with more keys that nobody knows is a script's own
# torch's floating dtypes by name (transformers 5.23.0 modeling_utils.py asks torch for an attribute of that name).
_DTYPES = ("auto", "bfloat16", "float16", "float32", "float64", "half", "float", "double")
_DTYPE_ALIASES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "torch.bfloat16": "bfloat16"}
# transformers 5.23.0 modeling_utils.py:1845, get_correct_attn_implementation; a name with a slash is the hub's kernel.
_ATTENTION = (
    *("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4", "flex_attention"),
    *("paged|eager", "paged|sdpa", "paged|flash_attention_2", "paged|flash_attention_3", "auto"),
)
_ATTENTION_ALIASES = {
    **dict.fromkeys(("fa2", "flash", "flash_attn", "flash_attention", "flash_attn_2"), "flash_attention_2"),
    **dict.fromkeys(("fa3", "flash_attn_3"), "flash_attention_3"),
    **dict.fromkeys(("xformers", "mem_efficient", "sdpa_attention"), "sdpa"),
}
# transformers 5.23.0 integrations/integration_utils.py:2643, get_reporting_integration_callbacks raises ValueError
REPORTS = (
    *(
        "azure_ml",
        "comet_ml",
        "mlflow",
        "neptune",
        "tensorboard",
        "trackio",
        "wandb",
        "codecarbon",
        "clearml",
        "dagshub",
    ),
    *("flyte", "dvclive", "swanlab", "kubeflow", "all", "none"),
)
# Words that TRL's trainers compare with names, by task: those of releases 0.16 to 1.16 (sft_trainer.py:1042,
# dpo_trainer.py:1387-1504, grpo_trainer.py:2767, :3084, :3109; data_utils.py:901; generation/vllm_generation.py:370).
_PACKING = ("bfd", "bfd_split", "wrapped", "bfd-requeue", "ffd")
_WORDS_OF_TASK: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sft": {"loss_type": ("nll", "dft", "chunked_nll"), "packing_strategy": _PACKING},
    "dpo": {
        "loss_type": (
            *("sigmoid", "hinge", "ipo", "kto_pair", "exo_pair", "nca_pair", "robust", "bco_pair", "sppo_hard", "aot"),
            *("aot_pair", "aot_unpaired", "apo_zero", "apo_down", "discopop", "sft", "sigmoid_norm", "ddro"),
        ),
    },
    "grpo": {
        "loss_type": ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"),
        "importance_sampling_level": ("token", "sequence", "sequence_token"),
        "scale_rewards": ("group", "batch", "none"),
        "vllm_mode": ("server", "colocate"),
    },
}
_OF_4_BITS = (
    "bnb_4bit_quant_type"  # which nothing reads otherwise (trl 1.16.0 trainer/utils.py, get_quantization_config)
)
# Of ModelConfig: peft 0.21.2 config.py (LoraConfig, task_type), bitsandbytes functional.py (quantize_4bit).
_MODEL_CONFIG_WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "lora_task_type": (
        ("seq_cls", "seq_2_seq_lm", "causal_lm", "token_cls", "question_ans", "feature_extraction"),
        "PEFT",
    ),
    _OF_4_BITS: (("nf4", "fp4"), "bitsandbytes"),
}
# transformers 5.23.0 hf_argparser.py:32, string_to_bool
_TRUTHS = frozenset(("yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"))


def meant_issues(config: TrainerConfig) -> Iterator[Issue]:
    """Keys and words that nothing reads as they stand, each with what was probably meant."""
    yield from _keys(config)
    if config.trl:
        yield from _invalid_value(config, "dtype", _DTYPES, _DTYPE_ALIASES)
    yield from _invalid_value(config, "attn_implementation", _ATTENTION, _ATTENTION_ALIASES)
    yield from _names(config, "report_to", REPORTS, "transformers")
    if config.trl:
        yield from _share_of_vllm(config)
        for key, known in _WORDS_OF_TASK.get(config.stage, {}).items():
            yield from _names(config, key, known, "TRL")
        for key, (known, library) in _MODEL_CONFIG_WORDS.items():
            if key != _OF_4_BITS or as_bool(config.section.value.get("load_in_4bit")):
                yield from _names(config, key, known, library)


def _share_of_vllm(config: TrainerConfig) -> Iterator[Issue]:
    """A share of the card in percent (vllm 0.11.0 config/cache.py). A server of vLLM has arguments of its own."""
    key, section = "vllm_gpu_memory_utilization", config.section
    share = as_number(section.value.get(key))
    if share is not None and share > 1 and section.value.get("vllm_mode") == "colocate":
        yield section.issue("bad-value", f"`{key}` must be at most 1, got {share:g}: vLLM raises ValueError", key)


def _keys(config: TrainerConfig) -> Iterator[Issue]:
    start = config.section.document.start
    if start is not None and start.launcher != "trl":
        return  # the program's own flags: those that it refuses are named by _refused (issues.py)
    present, known = config.section.value, compiled_schema(SCHEMA).schema["properties"]
    start = config.section.document.start
    own = start.accepted.defined if start is not None else frozenset()  # flags of the program that a command starts
    unknown = [key for key in present if isinstance(key, str) and key not in known]
    if len(unknown) > _MOST_UNKNOWN:
        return
    names = {**_ARGUMENTS, **(_TRL_ALIASES if config.trl else {})}
    targets = {other: key for key, others in names.items() for other in others}
    if config.stated.get("transformers", ()) >= (4, 51):
        # training_args.py of 4.50.3 has both names, of 4.51.0 the new one alone; unsaid, an older release may read it
        targets["evaluation_strategy"] = "eval_strategy"
    for key in present:
        if not isinstance(key, str) or key in own or "x-memlint-removed-in" in known.get(key, ()):
            continue
        target = targets.get(key) or _respelt(key, known)
        if key in known and target in _TRL_ALIASES and "use_peft" not in present:
            continue  # well-known scripts have `model_name` and `lora_rank` of their own
        if target and target not in present and not config.declares(key):
            what = _effect_of_unknown_key(config)
            message = f"unknown key `{key}`: did you mean `{target}`? {what}"
            yield config.section.issue("unknown-key", message, key, severity="warning", on_key=True, suggestion=target)


def _effect_of_unknown_key(config: TrainerConfig) -> str:
    """What happens to a key that no class has."""
    if config.section.document.syntax == "python":
        return "Python raises TypeError: it is no argument of the configuration class"
    found = config_reader(config) if config.trl else ConfigReader()
    if found.path and "TrlParser" in found.parsers:  # trl 0.19.1 scripts/utils.py:226; its own scripts ask it not to
        return "TrlParser refuses it, and before trl 0.19 drops it"
    return "TRL's scripts drop it" if config.trl and not found.path else "HfArgumentParser refuses it"


def config_reader(config: TrainerConfig) -> ConfigReader:
    """Who reads the file, as the repository shows it."""
    keys = frozenset(key for key in config.section.value if isinstance(key, str))
    return config.context.repository.config_reader(config.section.document.path, keys)


def _respelt(key: str, known: Mapping[str, Any]) -> str:
    """The known key that `key` is, but for a hyphen, two swapped first letters, or a slip of a short one."""
    plain = normal(key)
    if plain != key and plain in known and "-" in key:
        return plain
    swapped = plain[1:2] + plain[:1] + plain[2:]
    if swapped in known and len(plain) > 5:
        return swapped
    short = (word for word in _SHORT if plain[:1] == word[0] and 2 < len(plain) <= len(word))
    return next((word for word in short if distance(plain, word, 2) == 1), "")


def _invalid_value(
    config: TrainerConfig, key: str, known: tuple[str, ...], aliases: Mapping[str, str]
) -> Iterator[Issue]:
    """The value of `key`, where no library takes it."""
    value = config.section.value.get(key)
    if not isinstance(value, str) or value in known or not value or interpolated(value) or "/" in value:
        return
    if value.startswith("float8_") or config.context.repository.field_annotations(key):
        return
    reader = config_reader(config) if config.section.document.start is None else ConfigReader()
    if key in reader.leaves_out:
        return  # the program that reads the file leaves it out
    guess = aliases.get(value.lower()) or nearest(value, known)
    hint = f": did you mean `{guess}`?" if guess else f"; it takes {', '.join(known[:6])}"
    message = f"`{key}: {value[:60]}` is none of the values that transformers takes{hint}"
    severity = "error" if config.trl else "warning"
    yield config.section.issue("bad-value", message, key, severity=severity, suggestion=guess)


def _names(config: TrainerConfig, key: str, known: tuple[str, ...], library: str) -> Iterator[Issue]:
    """The first of the words under `key` that the library has no meaning for; a slip of one ends the run, another word
    may be a fork's."""
    value = config.section.value.get(key)
    words = value if isinstance(value, list) else [value]
    unknown = [word for word in words if isinstance(word, str) and word and word.lower() not in (*known, *_TRUTHS)]
    if not unknown or interpolated(unknown[0]) or config.context.repository.field_annotations(key):
        return
    if all(config.context.repository.knows_word(key, word) for word in unknown):
        return  # a trainer of the repository's own
    guess = nearest(unknown[0], known)
    hint = f": did you mean `{guess}`?" if guess else f"; it takes {', '.join(known)}"
    message = f"`{key}: {unknown[0][:60]}` is none of the words that {library} knows{hint}"
    severity = "error" if guess else "warning"
    yield config.section.issue("bad-value", message, key, severity=severity, suggestion="" if words is value else guess)


def refused_text(issue: Issue, value: str, config: TrainerConfig) -> Issue | None:
    """Text where a number, a truth value or a mapping is wanted, and that spells none: TrlParser hands it to argparse,
    which refuses it; HfArgumentParser and a script pass it on, and a number fails where it is used."""
    key = issue.pointer[0] if len(issue.pointer) == 1 else ""
    kinds = compiled_schema(SCHEMA).schema["properties"].get(key, {}).get("type", ())
    if as_number(value) is not None or not value.strip():
        return None
    numeric = "integer" in kinds or "number" in kinds
    truth = "boolean" in kinds and value.strip().lower() not in _TRUTHS
    document = config.section.document
    is_script = document.syntax == "python" or (
        document.start is not None and bool(document.start.accepted.arguments_class)
    )
    if is_script or not config.trl or _converts_nothing(config):
        who = "the script" if is_script else "HfArgumentParser"
        what = "any text counts as true" if truth else f"{who} passes it on, and the run fails where it is used"
        message = f"{issue.message}: {what}"
        return (
            issue._replace(severity="warning", message=message)
            if truth or (numeric and "boolean" not in kinds)
            else None
        )
    mapping = "object" in kinds and "boolean" not in kinds and not _is_json(value)
    if numeric or truth or mapping or key == "datasets":
        return issue._replace(severity="warning", message=f"{issue.message}: TrlParser refuses it")
    return None


def _converts_nothing(config: TrainerConfig) -> bool:
    """Whether the program that reads the file makes an HfArgumentParser, or a relative of it, and no TrlParser; where
    nothing tells which program that is, whether all of the repository's do."""
    parsers = config_reader(config).parsers or config.context.repository.argument_parsers()
    return bool(parsers) and "TrlParser" not in parsers


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
