"""Every key that a schema knows, set to every kind of value, through the whole check: no crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.shipped_data import folder
from tests.hostile.lint import crashes, lint

MODEL = {"model_name_or_path": "Qwen/Qwen2.5-7B-Instruct", "output_dir": "x", "per_device_train_batch_size": 8}
BASES: dict[str, dict[str, Any]] = {
    "llamafactory": {**MODEL, "stage": "sft", "finetuning_type": "lora", "cutoff_len": 2048, "do_train": True},
    "trainer": {**MODEL, "max_length": 2048, "learning_rate": 1e-5, "bf16": True},
    "axolotl": {
        "base_model": "Qwen/Qwen2.5-7B-Instruct",
        "micro_batch_size": 8,
        "sequence_len": 2048,
        "adapter": "lora",
        "lora_r": 8,
        "lora_target_linear": True,
        "bf16": "auto",
        "datasets": [{"path": "d"}],
        "learning_rate": 1e-5,
    },
    "deepspeed": {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}},
    "accelerate": {"compute_environment": "LOCAL_MACHINE", "distributed_type": "FSDP", "num_processes": 8},
}
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, -8, 1.5, -0.5, 1e30, 10**400, float("inf"), float("nan"), "", "auto", "none"),
    *("1e30", "-1", "0x10", "null", "8 GB", "${x}", "a/b", "a" * 5000, "\u202e", [], [1], ["x", None], [[]], [10**30]),
    *({}, {"a": 1}, {"enabled": True}, [{}], "../../../../etc/passwd", "/dev/zero", "http://x/y", "9" * 400),
]
ANYTHING = st.sampled_from(ODD) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def keys(schema: Any, root: Any, depth: int = 0) -> Iterator[tuple[str, ...]]:
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        schema = target
    for branch in (schema, *schema.get("anyOf", ())):
        for key, below in branch.get("properties", {}).items():
            yield (key,)
            if depth < 2:
                yield from ((key, *rest) for rest in keys(below, root, depth + 1))


def known() -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for name in BASES:
        with open(f"{folder('schemas')}/{name}.json", encoding="utf-8") as stream:
            root = json.load(stream)
        parts = [root] if "properties" in root else list(root["$defs"].values())
        found += [(name, key) for key in sorted({key for part in parts for key in keys(part, root)})]
    return found


KNOWN = known()


def changed(base: dict[str, Any], key: tuple[str, ...], value: Any) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(json.dumps(base))
    target = whole
    for part in key[:-1]:
        if not isinstance(target.get(part), dict):
            target[part] = {}
        target = target[part]
    target[key[-1]] = value
    return whole


def test_the_schemas_give_keys() -> None:
    assert len(KNOWN) > 1500


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KNOWN), ANYTHING), min_size=1, max_size=3))
def test_no_value_of_any_key_is_a_crash(changes: list[tuple[tuple[str, tuple[str, ...]], Any]]) -> None:
    name = changes[0][0][0]
    value = BASES[name]
    for (_, key), new in changes:
        value = changed(value, key, new)
    text = json.dumps(value)

    assert crashes(lint(text.encode("utf-8", "surrogatepass"), "x.json" if name == "deepspeed" else "x.yaml")) == []


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_are_a_crash(data: bytes) -> None:
    for name in ("x.yaml", "x.json"):
        assert crashes(lint(data, name)) == []
