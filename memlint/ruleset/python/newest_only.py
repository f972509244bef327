"""MEM013: a run that fits with the newest releases, which are only assumed, but not with older ones.

The same files are read once more under older versions, which only Python can ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import memlint.memory.families.lookup as families
from memlint.expressions.facts import Facts
from memlint.expressions.functions import FUNCTIONS
from memlint.ruleset.release_reading import OLDER, is_stated, names
from memlint.ruleset.rule import Hit

_CONFIG = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
output_dir: out
dataset_text_field: text
per_device_train_batch_size: {batch}
max_length: 4096
use_peft: true
bf16: true
"""
FIELDS: Mapping[str, Any] = {
    "id": "MEM013",
    "name": "memory/newest-versions-only",
    "title": "The run fits with the newest releases only, and no version in use is stated",
    "severity": "info",
    "formats": ["trainer", "llamafactory"],
    "purposes": ["train"],
    "at": ["batch.micro_batch_size", "config"],
    "why": (
        "Releases differ in memory: TRL computes its loss from chunks since 1.7, transformers 5 loads weights in the "
        "checkpoint's precision where 4 took float32. Where no version is stated the newest are assumed."
    ),
    "sources": [
        "trl 1.16.0 kernels/chunked_logprob.py; trl 0.29.0 trainer/sft_trainer.py, compute_loss",
        "transformers 5.23.0 and 4.57.6 modeling_utils.py, from_pretrained: dtype",
    ],
    "examples": [
        {"fails": _CONFIG.format(batch=8), "gpu": "RTX4090", "gpus": 1, "says": "versions"},
        {"passes": _CONFIG.format(batch=1), "gpu": "RTX4090", "gpus": 1},
        {
            "passes": _CONFIG.format(batch=8),
            "gpu": "RTX4090",
            "gpus": 1,
            "versions": {"trl": "1.16", "transformers": "5.23"},
            "note": "somebody said which",
        },
        {"passes": _CONFIG.format(batch=8), "note": "nobody said which card"},
    ],
}


def check(facts: Facts) -> Iterator[Hit]:
    """One hit if the verdict "fits" depends on assumed versions: under older ones the run is out of memory."""
    if facts.verdict != "fits" or facts.under is None:
        return
    run, now = facts.run, facts.estimate
    if now is None or now.device_high_bytes is None:
        return
    # No release makes a run this much larger.
    if not now.budget_bytes or 8 * now.device_high_bytes < now.budget_bytes or is_stated(run):
        return
    if not families.of(run.model.architecture).code.include(OLDER["transformers"]):
        return
    older = facts.under(OLDER)
    if older is None or older.verdict != "out_of_memory" or older.device_low_bytes is None:
        return
    gib = FUNCTIONS["gib"].call
    newest, before = names(run)
    yield Hit(
        f"fits with {newest}, the newest, as no version in use is stated; with {before} it needs at least "
        f"{gib(older.device_low_bytes)} of {gib(older.budget_bytes)}: state them (`versions:` in memlint.yaml, "
        "--versions, a requirements file)",
        at="batch.micro_batch_size",
        data={"high": now.device_high_bytes, "low_before": older.device_low_bytes, "budget": now.budget_bytes},
    )
