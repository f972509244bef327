"""accelerate's table of keys: what is written is read back, in a launch file and among FSDP's options; its defaults."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from memlint.formats.accelerate import format as accelerate
from memlint.formats.accelerate.edits import accelerate_edits
from memlint.formats.accelerate.fsdp import LAUNCH_DEFAULTS, TRAINER_DEFAULTS, FsdpOptions, apply_fsdp
from memlint.formats.accelerate.keys import KEYS, OPTIONS
from memlint.formats.fields import Fields, root
from memlint.formats.keys import Key
from memlint.formats.section_keys import path_of
from memlint.run import Origin, Run, get
from tests.formats.frameworks import applied, context, document, run_of

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas" / "accelerate.json").read_text(encoding="utf-8"))
ENGINES = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED"}
EXAMPLES: dict[str, tuple[Any, ...]] = {"flag": (True, False), "whole": (1, 2000)}
WRITABLE = [row for row in KEYS if row.field and not row.read_only]
CASES = [
    pytest.param(row, value, id=f"{row.name}={value}")
    for row in WRITABLE
    for value in (row.values.values() if row.values else EXAMPLES[row.kind])
]


def launch(row: Key) -> dict[str, Any]:
    """A launch file in which the row's section counts; the version of FSDP that reads the row's option."""
    section = path_of(row.name)[0]
    second = row.name.endswith("reshard_after_forward")
    options: dict[str, Any] = {"fsdp_version": 2 if second else 1} if section == "fsdp_config" else {"zero_stage": 3}
    return {"distributed_type": ENGINES[section], "num_processes": 8, section: options}


def read(value: Any) -> Run:
    return run_of(accelerate.parse(document(value, "launch.json"), context()))


@pytest.mark.parametrize(("row", "value"), CASES)
def test_what_is_written_is_read_back(row: Key, value: Any) -> None:
    config = launch(row)
    edits = accelerate_edits(config, ("launch.json", ()), {row.field: value})
    assert get(read(applied(config, edits, "launch.json")), row.field) == value


@pytest.mark.parametrize(
    ("row", "older"), [pytest.param(row, older, id=older) for row in WRITABLE for older in row.older]
)
def test_the_file_s_own_spelling_is_read_and_kept(row: Key, older: str) -> None:
    said, value = next(iter(row.values.items())) if row.values else (EXAMPLES[row.kind][0],) * 2
    config = launch(row)
    section, key = path_of(older)
    config[section][key] = said
    assert get(read(config), row.field) == value
    edits = accelerate_edits(config, ("launch.json", ()), {row.field: value})
    assert edits is not None
    assert [edit.pointer for edit in edits] == [(section, key)]


def test_two_changes_of_a_section_that_is_missing() -> None:
    changes = {"parallelism.zero.stage": 3, "offload.optimizer": "cpu"}
    (edit,) = accelerate_edits({"distributed_type": "DEEPSPEED"}, ("launch.json", ()), changes) or ()
    assert edit.value == {"zero_stage": 3, "offload_optimizer_device": "cpu"}


def test_defaults_are_those_of_the_launch_command() -> None:
    wanted = launch_defaults()
    found = {row.name: row.default for row in OPTIONS if row.name in wanted and wanted[row.name] is not None}
    assert len(found) > 8
    assert found == {name: OPTIONS[name].parsed(wanted[name]) for name in found}


def test_defaults_without_a_launch_option_are_the_plugin_s() -> None:
    dataclasses_of = pytest.importorskip("accelerate.utils.dataclasses")
    plugin = {field.name: field.default for field in dataclasses.fields(dataclasses_of.FullyShardedDataParallelPlugin)}
    assert OPTIONS["fsdp_limit_all_gathers"].default is plugin["limit_all_gathers"]
    # What launch leaves to the plugin, the plugin leaves to the environment, with these words (1.15, __post_init__).
    words = {"fsdp_auto_wrap_policy": "NO_WRAP", "fsdp_backward_prefetch": "NO_PREFETCH"}
    assert {name: OPTIONS[name].default for name in words} == words
    assert [plugin[name.removeprefix("fsdp_")] for name in words] == [None, None]


def launch_defaults() -> dict[str, Any]:
    """Options of `accelerate launch` and their literal defaults."""
    spec = importlib.util.find_spec("accelerate")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).parent / "commands" / "launch.py").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
            default = next((word.value for word in call.keywords if word.arg == "default"), None)
            if default is not None and str(call.args[0].value).startswith("--"):
                found[str(call.args[0].value)[2:]] = _number(default)
    return found


def _number(node: ast.expr) -> Any:
    """The value of a literal; `int(1e8)` is one."""
    inner = node.args[0] if isinstance(node, ast.Call) else node
    return ast.literal_eval(inner)


def test_every_key_is_one_that_accelerate_knows() -> None:
    unknown = []
    for name in (name for row in KEYS for name in row.names):
        schema: Any = SCHEMA
        for step in path_of(name):
            schema = schema.get("properties", {}).get(step) if schema else None
        if schema is None and not name.startswith("fp8_config."):  # the schema leaves that section open
            unknown.append(name)
    assert unknown == ["deepspeed_config.mixed_precision"]  # heard (commands/launch.py:1266), and reported on its own


@pytest.mark.parametrize("defaults", [LAUNCH_DEFAULTS, TRAINER_DEFAULTS])
def test_every_option_has_a_default_wherever_it_is_read(defaults: dict[str, Any]) -> None:
    fields = Fields()
    apply_fsdp(fields, FsdpOptions(root(document({})), defaults, "nobody"), Origin("file"))
    kept = {row.field for row in OPTIONS if row.field and not row.only_if_given} - {"checkpointing.offload"}
    missing = kept - set(fields.values)
    assert missing <= {"parallelism.fsdp.min_num_params"}


@pytest.mark.parametrize(
    ("options", "defaults", "found"),
    [
        ({"offload_params": True}, {}, True),
        ({"fsdp_offload_params": True}, {}, True),
        ({"cpu_offload": True}, {}, True),
        ({"cpu_offload": False}, {"offload_params": True}, True),  # the word of `fsdp: full_shard offload`
        ({}, {}, False),
    ],
)
def test_parameters_are_offloaded_under_any_name(options: Any, defaults: dict[str, Any], found: bool) -> None:
    fields = Fields()
    apply_fsdp(fields, FsdpOptions(root(document(options)), {**TRAINER_DEFAULTS, **defaults}, ""), Origin("file"))
    assert fields.get("parallelism.fsdp.cpu_offload") is found
