"""A quick test of configuration files that no format knows: whether a script of the repository may train from one.

Who reads them is searched in `configs`, whose imports take as long as a whole check.
"""

from __future__ import annotations

import re

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
MAX_LETTERS = 131_072  # characters of a config; a longer file is data
MIN_KEYS = 2  # values of a run that must come from the file
_KEY = r"""\b([\w.]+)["']?\s*[\]:=]"""  # a key, or the end of a TOML table's name
# Keys that training configs have, whatever their schema.
_TRAINING_KEY = (
    r"""(?i)[\w.]*(?:batch_size|batch|learning_rate|\blr|epochs?|max_steps|lora\w*|rank|alpha|model\w*"""
    r"""|(?:seq|max|context)\w*_len(?:gth)?|accumulation\w*|bf16|fp16|optim(?:izer)?|warmup\w*|checkpointing|dtype)"""
)
# A config that only overrides another one (Hydra 1.3 docs, "Configuring Experiments"): by itself it describes no run.
_ON_TOP = r"(?m)^#\s*@package\b|^\s*-\s*override\b"


def may_configure_a_run(path: str, text: str) -> bool:
    """Whether a file has keys that training configs have, and is no part of another config."""
    if not path.endswith(SUFFIXES) or len(text) > MAX_LETTERS:
        return False
    keys = set(re.findall(_KEY, text))
    return sum(re.fullmatch(_TRAINING_KEY, key) is not None for key in keys) >= MIN_KEYS and not re.search(
        _ON_TOP, text
    )
