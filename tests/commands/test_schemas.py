"""The schemas on their own: where they lie, what they say, and that other checkers take them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memlint.commands.schemas import ABOUT, path
from tests.commands.running import ROOT, memlint

FRAMEWORKS = ("llamafactory", "axolotl", "trainer", "deepspeed", "accelerate")
MOST_BY_ITSELF = 300  # keys that move memory or stop a run, described in our own words
EXAMPLES = {
    "llamafactory": ("llamafactory/llama3_8b_full_sft.yaml", "bf16: true", "bf16: maybe"),
    "axolotl": ("axolotl/llama3_8b_qlora.yaml", "micro_batch_size: ", "micro_batch_size: two # "),
    "trainer": (
        "trainer/sft_lora_qwen2_5_7b.yaml",
        "per_device_train_batch_size: ",
        "per_device_train_batch_size: [] # ",
    ),
    "deepspeed": ("deepspeed/zero2.json", '"stage": 2', '"stage": 4'),
    "accelerate": ("trainer/accelerate_fsdp.yaml", "num_processes: ", "num_processes: many # "),
}


def properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property with its name, however deep."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items() if isinstance(schema.get("properties"), dict) else ()
    for one in inner:
        yield from properties(one)


def test_the_command_names_every_schema(tmp_path: Path) -> None:
    listed = memlint(tmp_path, "schemas").out

    assert {f"{one}.json" for one in ABOUT} == {one.name for one in (ROOT / "schemas").glob("*.json")}
    assert all(f"{one}.json" in listed for one in ABOUT)
    assert memlint(tmp_path, "schemas", "deepspeed").out == f"{ROOT / 'schemas' / 'deepspeed.json'}\n"
    assert "did you mean deepspeed?" in memlint(tmp_path, "schemas", "deepsped").err


@pytest.mark.parametrize("name", ABOUT)
def test_a_schema_says_what_it_is(name: str) -> None:
    schema = json.loads(Path(path(name)).read_text("utf-8"))

    assert schema["$id"] == f"{name}.json"
    assert schema["title"] and schema["$schema"].endswith("2020-12/schema")


def test_keys_that_move_memory_are_described() -> None:
    described = {
        (name, key)
        for name in FRAMEWORKS
        for key, schema in properties(json.loads(Path(path(name)).read_text("utf-8")))
        if "description" in schema and not schema["description"].startswith(("Since ", "Removed in ", "Now called "))
    }

    assert len(described) > MOST_BY_ITSELF


@pytest.mark.parametrize("name", EXAMPLES)
def test_check_jsonschema_takes_them(tmp_path: Path, name: str) -> None:
    example, old, new = EXAMPLES[name]
    good = ROOT / "examples" / example
    bad = tmp_path / good.name
    text = good.read_text("utf-8")
    assert old in text
    bad.write_text(text.replace(old, new), encoding="utf-8")

    codes = [
        subprocess.run(
            [sys.executable, "-m", "check_jsonschema", "--schemafile", path(name), str(file)],
            capture_output=True,
            check=False,
        ).returncode
        for file in (good, bad)
    ]

    assert codes == [0, 1]
