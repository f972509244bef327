"""Arguments that end the run if they are null.

HfArgumentParser.parse_dict and parse_yaml_file convert and check nothing (transformers 5.23.0 hf_argparser.py:358), and
a null in TrlParser's file becomes the default: None reaches the dataclass as it is. It ends the run only where it is
compared, or looked up in an enumeration.
"""

from __future__ import annotations

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
