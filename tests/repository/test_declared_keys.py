"""Configuration files whose keys the settings explain: `keys:` of memlint.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.repository.declared_keys import key_of, path_of
from tests.commands.running import memlint, write
from tests.repository.test_python_documents import CONFIG, OWN

CARD = ("--gpu", "RTX4090", "--gpus", "1")
LARGE = ("--gpu", "A100-80GB", "--gpus", "1")  # where checkpointing alone mends it
KEYS = """\
keys:
  - files: "configs/*.yaml"
    class: SFTConfig
    arguments:
      model_name_or_path: model.name
      per_device_train_batch_size: training.batch
      gradient_accumulation_steps: training.accumulate
      max_length: {key: training.length, default: 512}
      gradient_checkpointing: {key: training.checkpointing, default: false}
      bf16: {value: true}
"""


def checked(folder: Path, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(memlint(folder, "check", "--format", "json", *arguments, *CARD).out)
    return found


def values(folder: Path, path: str) -> dict[str, Any]:
    (row,) = json.loads(memlint(folder, "map", path, "--format", "json").out)["runs"]
    return {entry["key"]: entry["value"] for entry in row["keys"]}


def test_the_findings_stand_at_the_keys_of_the_file(tmp_path: Path) -> None:
    write(tmp_path, {"configs/a.yaml": CONFIG, "memlint.yaml": KEYS})
    report = checked(tmp_path, ".")
    assert [run["path"] for run in report["runs"]] == ["configs/a.yaml"]
    (found,) = (item for item in report["findings"] if item["rule"] == "MEM001")
    assert (found["location"]["path"], found["location"]["line"]) == ("configs/a.yaml", 4)


def test_a_fix_changes_the_key_and_adds_one_that_is_missing(tmp_path: Path) -> None:
    write(tmp_path, {"configs/a.yaml": CONFIG, "memlint.yaml": KEYS})
    assert memlint(tmp_path, "fix", "configs/a.yaml", "--unsafe", *LARGE).code == 0
    changed = (tmp_path / "configs/a.yaml").read_text()
    assert "  checkpointing: true\n" in changed
    assert "  name: Qwen/Qwen2.5-0.5B  # the base\n" in changed
    assert values(tmp_path, "configs/a.yaml")["gradient_checkpointing"] is True


def test_settings_outweigh_what_is_inferred(tmp_path: Path) -> None:
    keys = KEYS.replace("training.batch", "training.accumulate").replace("configs/", "")
    write(tmp_path, {"train.py": OWN, "a.yaml": CONFIG, "memlint.yaml": keys})
    assert values(tmp_path, "a.yaml")["per_device_train_batch_size"] == 1
    assert memlint(tmp_path, "map", "a.yaml").out.startswith("a.yaml, read by memlint.yaml\n")


def test_a_file_without_the_key_has_the_default(tmp_path: Path) -> None:
    config = CONFIG.replace("  length: 4096\n", "")
    write(tmp_path, {"configs/a.yaml": config, "memlint.yaml": KEYS})
    found = values(tmp_path, "configs/a.yaml")
    assert (found["max_length"], found["gradient_checkpointing"], found["bf16"]) == (512, False, True)


def test_an_argument_that_nobody_knows_stays_unknown(tmp_path: Path) -> None:
    keys = KEYS.replace("training.batch\n", "{unknown: it depends on the day}\n")
    write(tmp_path, {"configs/a.yaml": CONFIG, "memlint.yaml": keys})
    (run,) = checked(tmp_path, "configs/a.yaml")["runs"]
    assert run["verdict"] == "unknown"


def test_json_has_findings_and_fixes_too(tmp_path: Path) -> None:
    config = json.dumps({"model": {"name": "Qwen/Qwen2.5-0.5B"}, "training": {"batch": 64, "length": 4096}}, indent=2)
    write(tmp_path, {"configs/a.json": config, "memlint.yaml": KEYS.replace("*.yaml", "*.json")})
    memlint(tmp_path, "fix", "configs/a.json", "--unsafe", *LARGE)
    changed = json.loads((tmp_path / "configs/a.json").read_text())
    assert changed["training"]["checkpointing"] is True


@pytest.mark.parametrize("config", ["", "[]", "4", "model: [1, 2]\ntraining: 4\n", "a: *b\n", "training: {batch: [x]}"])
def test_files_of_another_shape_break_nothing(tmp_path: Path, config: str) -> None:
    write(tmp_path, {"configs/a.yaml": config, "memlint.yaml": KEYS})
    done = memlint(tmp_path, "check", ".", *CARD)
    assert done.code in (0, 1) and "Traceback" not in done.err and "MEM001" not in done.out


def test_the_last_entry_that_covers_a_file_counts(tmp_path: Path) -> None:
    other = (
        KEYS.replace("keys:\n", "").replace('"configs/*.yaml"', "configs/a.yaml").replace("default: 512", "default: 7")
    )
    write(tmp_path, {"configs/a.yaml": "model: {name: gpt2}\n", "memlint.yaml": KEYS + other})
    assert values(tmp_path, "configs/a.yaml")["max_length"] == 7


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("max_length:", "max_lenght:", "8:7", "neither SFTConfig nor the model has an argument `max_lenght`: did you"),
        ("max_length:", "beta:", "8:7", "SFTConfig has no argument `beta`; BCOConfig, CPOConfig, DPOConfig have one"),
        ("value: true", "value: often", "10:21", "`bf16` wants true or false or null, got the string 'often'"),
        ("default: 512", "default: long", "8:51", "`max_length` wants an integer or null, got the string 'long'"),
        ("SFTConfig", "SftConfig", "3:12", "did you mean `SFTConfig`?"),
        ("model.name", "4", "5:27", "wants a string or a mapping, got 4"),
        ("{value: true}", "{values: true}", "10:", "values"),
        ("configs/*.yaml", "../a.yaml", "2:12", "a pattern cannot lead out of this file's folder"),
    ],
)
def test_mistakes_in_the_settings_have_their_place(
    tmp_path: Path, old: str, new: str, place: str, message: str
) -> None:
    write(tmp_path, {"configs/a.yaml": CONFIG, "memlint.yaml": KEYS.replace(old, new)})
    done = memlint(tmp_path, "check", ".", *CARD)
    assert done.code == 2
    assert f"memlint.yaml:{place}" in done.err and message in done.err


_NAMES = st.lists(st.text("ab./~1", min_size=1, max_size=4), min_size=1, max_size=3)


@given(_NAMES)
def test_a_path_is_found_again_by_its_key(names: list[str]) -> None:
    value: Any = 1
    for name in reversed(names):
        value = {name: value}
    assert path_of(key_of(tuple(names)), value) == tuple(names)


def test_keys_lead_into_lists_and_names_with_dots() -> None:
    value = {"runs": [{"a.b": {"c": 1}}], "a": {"b": {"c": 2}}}
    assert path_of("runs.0.a.b.c", value) == ("runs", 0, "a.b", "c")
    assert path_of("a.b.c", value) == ("a", "b", "c")
    assert path_of("/runs/0/a.b", value) == ("runs", 0, "a.b")
    assert path_of("new.part", {}) == ("new", "part")
