"""`memlint map`: the values of a script and where they are written."""

from __future__ import annotations

import json
from pathlib import Path

from tests.commands.running import memlint, write
from tests.repository.test_python_documents import CONFIG, OWN


def test_each_argument_has_its_place(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OWN, "a.yaml": CONFIG})
    (row,) = json.loads(memlint(tmp_path, "map", "a.yaml", "--format", "json", "--isolated").out)["runs"]
    assert (row["path"], row["script"]) == ("a.yaml", "train.py")
    keys = {entry["key"]: (entry["value"], entry["written_at"]) for entry in row["keys"]}
    assert keys["model_name_or_path"] == ("Qwen/Qwen2.5-0.5B", "a.yaml:2")
    assert keys["max_length"] == (4096, "a.yaml:6")
    assert keys["gradient_checkpointing"] == (True, "train.py:12")


def test_what_the_script_computes_is_said(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": OWN.replace("training['accumulate']", "rounds()"), "a.yaml": CONFIG})
    said = memlint(tmp_path, "map", "a.yaml", "--isolated").out
    assert said.startswith("a.yaml, read by train.py\n")
    assert "gradient_accumulation_steps  unknown: what `rounds` returns is not known" in said


def test_files_that_nothing_trains_with(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "print('x')\n", "a.yaml": CONFIG})
    done = memlint(tmp_path, "map", "a.yaml", "--isolated")
    assert done.code == 2 and "no Python script here trains" in done.err
