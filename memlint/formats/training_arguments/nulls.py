"""Arguments that end the run if they are null.

HfArgumentParser.parse_dict and parse_yaml_file convert and check nothing (transformers 5.23.0 hf_argparser.py:358), and
a null in TrlParser's file becomes the default: None reaches the dataclass as it is. It ends the run only where it is
compared, or looked up in an enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# transformers 5.23.0 training_args.py:1515-1640 (`__post_init__`, `_validate_args`), optim/adamw.py, Trainer's first
# step; each run with null through the parser.
COMPARED = frozenset(
    ("adam_beta1", "adam_beta2", "adam_epsilon", "learning_rate", "max_steps", "save_steps", "logging_steps")
    + ("warmup_steps", "per_device_train_batch_size", "dataloader_num_workers", "seed", "weight_decay")
    + ("gradient_accumulation_steps", "num_train_epochs", "label_smoothing_factor")
)
ENUMERATED = frozenset(
    ("eval_strategy", "save_strategy", "logging_strategy", "hub_strategy", "lr_scheduler_type", "optim", "log_level")
)
ENDS_THE_RUN = COMPARED | ENUMERATED

# Numbers of steps are looked at where their strategy counts steps alone, as it does by default (training_args.py:1731,
# trainer_callback.py:156 and :572 of 5.23.0).
_STRATEGIES: Mapping[str, str] = {"save_steps": "save_strategy", "logging_steps": "logging_strategy"}
_STEPS = "steps"


def ends_the_run(key: str, values: Mapping[str, Any]) -> bool:
    """Whether a null of `key` ends the run. `values`: the keys beside it."""
    strategy = _STRATEGIES.get(key)
    if strategy is None:
        return key in ENDS_THE_RUN
    return _counts_steps(values, strategy, _STEPS) or (key == "logging_steps" and _stands_for_evaluation(values))


def _stands_for_evaluation(values: Mapping[str, Any]) -> bool:
    """Whether `logging_steps` is the number of steps between evaluations, too (training_args.py:1575)."""
    evaluates = any(_counts_steps(values, name, "") for name in ("eval_strategy", "evaluation_strategy"))
    return evaluates and not values.get("eval_steps")


def _counts_steps(values: Mapping[str, Any], strategy: str, default: str) -> bool:
    return str(values.get(strategy, default)).lower() == _STEPS
