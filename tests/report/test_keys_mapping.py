"""`memlint map --format keys`: what is inferred, in the form of the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memlint.settings import load_settings
from tests.commands.running import memlint, write
from tests.repository.test_python_documents import CONFIG, OWN


def report(folder: Path) -> Any:
    found = json.loads(memlint(folder, "check", "a.yaml", "--format", "json", "--gpu", "RTX4090", "--gpus", "1").out)
    return [(one["verdict"], one["peak"]) for one in found["runs"]], [one["rule"] for one in found["findings"]]


def test_what_is_printed_can_be_pasted_and_says_the_same(tmp_path: Path) -> None:
    script = OWN.replace("training['accumulate']", "rounds()").replace("'bfloat16'", "getattr(torch, 'bfloat16')")
    write(tmp_path, {"train.py": script, "a.yaml": CONFIG})
    inferred = report(tmp_path)
    printed = memlint(tmp_path, "map", "a.yaml", "--format", "keys").out
    write(tmp_path, {"memlint.yaml": printed})
    assert load_settings(str(tmp_path)).files
    assert report(tmp_path) == inferred
    assert "      per_device_train_batch_size: training.batch\n" in printed
    assert "      gradient_checkpointing: {value: true}  # train.py:12\n" in printed
    assert '      gradient_accumulation_steps: {unknown: "what `rounds` returns is not known"}\n' in printed
    (tmp_path / "train.py").unlink()
    assert report(tmp_path) == inferred


def test_a_script_without_a_configuration_file_needs_none(tmp_path: Path) -> None:
    call = "Trainer(model='gpt2', args=TrainingArguments('o', per_device_train_batch_size=4))\n"
    write(tmp_path, {"train.py": f"from transformers import Trainer, TrainingArguments\n{call}"})
    done = memlint(tmp_path, "map", "train.py", "--format", "keys")
    assert done.code == 2 and "need no mapping" in done.err
