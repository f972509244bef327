"""Write schemas/trainer.json from framework sources, which are read and never run.

    python tools/trainer_schema.py SOURCES

SOURCES holds `transformers` (5.23.0), `transformers-4.57` (4.57.6), `trl` (1.16.0), `trl-0.29` and `trl-0.15`
(0.29.0, 0.15.2), each unpacked from its wheel. A key that only an older release has is marked with the release that
dropped it, where RENAMED and LEFT know it.
"""

from __future__ import annotations

import ast
import sys
import typing
from pathlib import Path
from typing import Any

from schema_parts import Schema, any_of, kinds_of, of_annotation, write

# Old name -> since when, and what says it now. Releases 4.57.6 and every 5.x.0 of transformers up to 5.23.0 were
# compared; TRL: 0.15.2, 0.16.0, 0.17.0, 0.19.1, 0.21.0, 0.22.2, 0.23.0, 0.24.0, 0.26.2, 0.29.0 and its own notes.
RENAMED = {
    "evaluation_strategy": ("transformers 4.46", "eval_strategy"),
    "per_gpu_train_batch_size": ("transformers 5.0", "per_device_train_batch_size"),
    "per_gpu_eval_batch_size": ("transformers 5.0", "per_device_eval_batch_size"),
    "no_cuda": ("transformers 5.0", "use_cpu"),
    "warmup_ratio": ("transformers 5.15", "warmup_steps"),
    "group_by_length": ("transformers 5.2", "train_sampling_strategy"),
    "push_to_hub_model_id": ("transformers 5.0", "hub_model_id"),
    "push_to_hub_organization": ("transformers 5.0", "hub_model_id"),
    "push_to_hub_token": ("transformers 5.0", "hub_token"),
    "torchdynamo": ("transformers 5.0", "torch_compile_backend"),
    "max_seq_length": ("trl 0.20", "max_length"),
    "use_liger": ("trl 0.18", "use_liger_kernel"),
    "torch_dtype": ("trl 0.29", "dtype"),
    "use_flash_attention_2": ("transformers 4.36", "attn_implementation"),
}
# What the new key makes of the old one's value: transformers 5.23.0 training_args.py:2159.
NOTES = {"warmup_ratio": "a value below 1 is the share of all steps there too"}
# What the new key takes is no truth value: `train_sampling_strategy: group_by_length`.
OTHER_VALUE = frozenset({"group_by_length", "use_flash_attention_2"})

# What the annotation does not say. torch 2.13 optim/adamw.py:54-63 refuses a negative rate, epsilon or decay and a beta
# outside of [0, 1); peft 0.21.2 tuners/lora/layer.py a rank below 1; torch nn/modules/dropout.py a share above 1;
# numpy a seed outside of 32 bits; utils/data/dataloader.py an empty batch and negative workers. An accumulation of 0 is
# divided by (transformers 5.23.0 trainer.py).
LIMITS: dict[str, Schema] = {
    **{name: {"minimum": 0} for name in ("learning_rate", "adam_epsilon", "weight_decay")},
    **{name: {"minimum": 0, "exclusiveMaximum": 1} for name in ("adam_beta1", "adam_beta2")},
    "lora_dropout": {"minimum": 0, "maximum": 1},
    **{name: {"minimum": 1} for name in ("lora_r", "per_device_train_batch_size", "gradient_accumulation_steps")},
    "dataloader_num_workers": {"minimum": 0},
    "seed": {"minimum": 0, "maximum": 2**32 - 1},
}
# The numbers are what a run writes down of its levels.
LOG_LEVELS = ["detail", "debug", "info", "warning", "error", "critical", "passive", -1, 10, 20, 30, 40, 50, None]
# transformers 5.23.0 utils/logging.py:44 and trainer_utils.py (IntervalStrategy); YAML 1.1 reads `no` as false.
CHOICES: dict[str, Schema] = {
    "log_level": {"enum": LOG_LEVELS},
    "log_level_replica": {"enum": LOG_LEVELS},
    "logging_strategy": {"enum": ["no", "steps", "epoch", False, None]},
}

# transformers 4.49.0 has ADAMW_HF in training_args.py and 4.50.0 has not; 5.7 has ADAMW_APEX_FUSED and 5.8.0 has not.
LEFT_OPTIMIZERS = {"adamw_apex_fused": "transformers 5.8.0", "adamw_hf": "transformers 4.50.0"}
LEFT = {"logging_dir": "transformers 5.15"}  # others that 5.23.0 lacks went with 5.0


class Namespace(dict[str, Any]):
    """Names of annotations; what is unknown may be anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def annotation_of(text: str, enums: dict[str, list[str]]) -> Schema:
    """The schema of an annotation as it stands in the source."""
    names = Namespace({name: getattr(typing, name) for name in ("Optional", "Union", "Literal", "Any", "List", "Dict")})
    names.update({kind.__name__: kind for kind in (int, float, bool, str, list, dict, type(None))})
    for name, values in enums.items():
        names[name] = typing.Literal[tuple(values)]
    if "PathLike" in text or "Callable" in text:
        return {}
    try:
        return of_annotation(eval(text, {"__builtins__": {}}, names))
    except (TypeError, NameError, AttributeError, SyntaxError):
        return {}


def fields_of(path: Path, enums: dict[str, list[str]]) -> dict[str, Schema]:
    """Every dataclass field of the classes in a file: name -> schema with its default."""
    found: dict[str, Schema] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Config", "Arguments", "Mixin")):
            for line in node.body:
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                    add(found, line.target.id, {**annotation_of(ast.unparse(line.annotation), enums), **default(line)})
    return {name: schema for name, schema in found.items() if not name.startswith("_")}


def default(line: ast.AnnAssign) -> Schema:
    value: ast.expr | None = line.value
    if isinstance(value, ast.Call):
        value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    try:
        constant = ast.literal_eval(value) if value is not None else None
    except ValueError:
        return {}
    return {"default": constant} if isinstance(constant, (bool, int, float, str)) else {}


def add(table: dict[str, Schema], name: str, schema: Schema) -> None:
    """Merge: one key may have several types in several classes."""
    present = table.get(name)
    if present is None or present == schema:
        table[name] = schema
        return
    bare = [{key: value for key, value in part.items() if key != "default"} for part in (present, schema)]
    merged = bare[0] if bare[0] == bare[1] else any_of([*alternatives(bare[0]), *alternatives(bare[1])])
    same = present.get("default") == schema.get("default") and "default" in present
    table[name] = {**unique(merged), **({"default": present["default"]} if same else {})}


def alternatives(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf", [schema])
    return found


def unique(schema: Schema) -> Schema:
    """A merged schema without repeats; plain types in one list."""
    kinds: list[str] = []
    rest: list[Schema] = []
    for part in alternatives(schema):
        if set(part) == {"type"}:
            kinds += kinds_of(part)
        elif part not in rest:
            rest.append(part)
    plain = [{"type": sorted(set(kinds))}] if kinds else []
    parts = rest + plain
    return {} if {} in parts else parts[0] if len(parts) == 1 else {"anyOf": parts}


def enum_values(path: Path) -> dict[str, list[str]]:
    """The string values of the enums in a file."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
            assigned = [line.value for line in node.body if isinstance(line, ast.Assign)]
            found[node.name] = [value.value for value in assigned if isinstance(value, ast.Constant)]
    return found


def transformers_fields(root: Path) -> dict[str, Schema]:
    package = root / "transformers"
    enums = {**enum_values(package / "training_args.py"), **enum_values(package / "trainer_utils.py")}
    return fields_of(package / "training_args.py", {name: enums[name] for name in ("OptimizerNames",)})


def trl_fields(root: Path) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for path in sorted((root / "trl").rglob("*.py")):
        if path.name.endswith("_config.py") or path.parent.name == "scripts" or path.name == "utils.py":
            for name, schema in fields_of(path, {}).items():
                add(found, name, schema)
    return found


# Keys of widely used scripts (transformers' run_clm.py, FastChat, LLaVA, QLoRA, Firefly, open-instruct, open-r1, the
# alignment handbook). Their values are the scripts' own; listing them keeps them from being taken for typos.
SCRIPT_KEYS = """
accelerate_config adapter_name_or_path add_bos add_eos_token additional_model_arguments async_mode
auto_insert_empty_system_msg
base_model_revision benchmarks bits bnb_4bit_compute_dtype bnb_4bit_quant_storage bnb_4bit_quant_type
bnb_4bit_use_double_quant block_size cache_dir callbacks chat_template chat_template_name checkpointing_steps
clip_grad_norm code_eval_scoring_mode code_eval_test_batch_size code_language code_provider config_name
config_overrides cosine_max_len data_path dataset_config dataset_config_name dataset_configs dataset_cache_mode
dataset_dir dataset_local_cache_dir dataset_mix_dir dataset_mixer dataset_mixer_list dataset_mixer_list_splits
dataset_mixture dataset_path dataset_prompt_column dataset_splits dataset_target_columns dataset_transform_fn
do_not_randomize_output_dir double_quant dpo_beta dpo_label_smoothing dpo_loss_type dpo_use_paged_optimizer env
eval_dataset_path eval_file exp_name final_lr_ratio freeze_backbone full_finetune fused_optimizer
gradient_checkpointing_use_reentrant hf_entity hf_metadata_dataset hub_model_revision image_aspect_ratio
keep_last_n_checkpoints keep_linebreaks lazy_preprocess load_balancing_loss load_balancing_weight local_rank
logging_dir lora_bias lora_enable lora_rank lora_weight_path low_cpu_mem_usage max_eval_samples max_memory_MB
max_prompt_length max_seq_length max_token_length max_train_samples mm_patch_merge_type mm_projector_lr
mm_projector_type mm_use_im_patch_token mm_use_im_start_end mm_vision_select_layer mm_vision_tower model_max_length
model_name model_type num_completions_to_print num_processes overwrite_cache packing peft_type phase
preprocessing_num_workers preprocessing_only pretrain_mm_mlp_adapter project_name push_to_hub quant_type reduce_loss
reference_model resume_from_checkpoint reward_funcs reward_weights sanity_check save_to_hub simpo_gamma
source_max_len streaming sync_each_batch system_prompt target_max_len task task_type template_name text_column
timeout tokenize_num_workers tokenizer_name tokenizer_name_or_path tokenizer_revision torch_dtype train_file
train_mode truncation_side trust_remote_code try_auto_save_to_beaker try_launch_beaker_eval_jobs tune_mm_mlp_adapter
unsloth_config use_8bit_optimizer use_fast_tokenizer use_flash_attention_2 use_flash_attn use_lora use_nested_quant
use_qlora use_slow_tokenizer use_unsloth validation_file validation_split_percentage version vision_tower
vllm_device wandb_entity wandb_project wandb_project_name wandb_run_group with_tracking
"""


def main(sources: Path) -> None:
    current = transformers_fields(sources / "transformers")
    trl = trl_fields(sources / "trl")
    properties: dict[str, Schema] = {**current}
    for name, schema in trl.items():
        add(properties, name, schema)
    older = [
        (transformers_fields(sources / "transformers-4.57"), "transformers 5.0"),
        (trl_fields(sources / "trl-0.29"), ""),
        (trl_fields(sources / "trl-0.15"), ""),
    ]
    for fields, gone in older:
        for name, schema in fields.items():
            if name in current and gone:
                add(properties, name, schema)
            elif name not in properties:
                properties[name] = {**schema, **({"x-memlint-removed-in": LEFT.get(name, gone)} if gone else {})}
    properties["optim"] = {
        "enum": [*optimizers(properties["optim"]), "adamw_hf"],
        "x-memlint-removed-values": LEFT_OPTIMIZERS,
    }
    properties["fsdp"] = {"anyOf": [{"type": "array"}, {"type": ["boolean", "string"]}]}
    properties["lora_target_modules"] = {"anyOf": [{"type": "array"}, {"type": "string"}]}
    add(properties, "scale_rewards", {"type": "boolean"})  # grpo_config.py:__post_init__ takes both
    add(properties, "resume_from_checkpoint", {"type": "boolean"})  # trainer.py:train takes False and True as well
    for name, limits in LIMITS.items():
        properties[name] = {**properties[name], **limits}
    for name, choice in CHOICES.items():
        properties[name] = {**properties[name], **choice}
        properties[name].pop("type", None)
    for name in SCRIPT_KEYS.split():
        properties.setdefault(name, {})
    for name, (since, new) in RENAMED.items():
        if name in properties and name not in trl:
            properties[name].update({"x-memlint-removed-in": since, "x-memlint-renamed-to": new})
            properties[name].update({"x-memlint-other-value": True} if name in OTHER_VALUE else {})
            properties[name].update({"x-memlint-note": NOTES[name]} if name in NOTES else {})
    lists = {name: nullable(name, schema) for name, schema in sorted(properties.items())}
    frame: Schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "TrainingArguments, TRL and PEFT keys of a Hugging Face Trainer configuration",
        "description": (
            "Generated by tools/trainer_schema.py from transformers 5.23.0 and 4.57.6, trl 1.16.0, 0.29.0 and 0.15.2. "
            "Scripts define keys of their own, so other keys are allowed."
        ),
        "type": "object",
        "properties": lists,
    }
    write("trainer.json", frame)


def optimizers(schema: Schema) -> list[str]:
    """Every optimizer that one of the releases takes."""
    return list(dict.fromkeys(word for part in alternatives(schema) for word in part.get("enum", ())))


def nullable(name: str, schema: Schema) -> Schema:
    """null means "not given" to every parser; YAML reads an unquoted `no` as false; dictionaries may be JSON text."""
    notes = {key: value for key, value in schema.items() if key == "default" or key.startswith("x-")}
    bare = {key: value for key, value in schema.items() if key not in notes}
    if not bare:
        return notes
    parts = [*alternatives(bare), {"type": "null"}]
    if name.endswith("_strategy"):
        parts.append({"type": "boolean"})
    return {**unique({"anyOf": parts}), **notes}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
