"""The tables of keys: what a row writes is what it reads, and its default is the framework's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memlint.formats.keys import FieldChange, Key, Keys
from memlint.formats.llamafactory.keys import KEYS
from memlint.formats.llamafactory.keys_v1 import KEYS as KEYS_V1
from memlint.formats.schema.validate import compiled_schema, is_valid
from memlint.run import Quantization, get
from tests.formats.llamafactory.files import BASE, V1_BASE, edited, parse

TABLES = [pytest.param(KEYS, "v0", id="v0"), pytest.param(KEYS_V1, "v1", id="v1")]
LORA = BASE.format(kind="lora") + "bf16: true\nval_size: 0.1\neval_strategy: steps\n"
FULL = BASE.format(kind="full")
VISION = LORA.replace(": llama\n", ": vlm\n", 1)

# A file in which the key counts, where LoRA on a text model is none.
FILES = {
    **dict.fromkeys(("freeze_trainable_layers", "freeze_trainable_modules"), BASE.format(kind="freeze")),
    "freeze_extra_modules": BASE.format(kind="freeze"),
    **dict.fromkeys(("freeze_vision_tower", "freeze_multi_modal_projector", "freeze_language_model"), VISION),
    **dict.fromkeys(("image_max_pixels", "video_max_pixels", "video_maxlen"), VISION),
    "galore_rank": FULL + "use_galore: true\n",
    "apollo_rank": FULL + "use_apollo: true\n",
    "pure_bf16": FULL,
    "bf16": FULL,
    "fp16": FULL,
    "recompute_granularity": FULL + "use_mca: true\n",
    "ref_model": FULL.replace("sft", "dpo"),
}
NF4 = {"method": "bnb", "bits": 4, "kind": "nf4", "double_quant": True, "storage_dtype": "bfloat16"}
PURE = {"precision.trainable_dtype": "bfloat16", "precision.autocast": False, "precision.outputs_to_fp32": False}
UNSLOTH = {"checkpointing.mode": "unsloth", "checkpointing.offload": True}

# Changes that rows with a `write` of their own know; the others get values of their kind.
CHANGES: dict[str, list[dict[str, Any]]] = {
    "quantization_bit": [
        {"model.quantization": Quantization("bnb", 4, "nf4", True, "bfloat16")},
        {"model.quantization": Quantization("bnb", 8, "int8")},
        {f"model.quantization.{part}": value for part, value in NF4.items()},
    ],
    "finetuning_type": [{"method.kind": kind} for kind in ("lora", "oft", "freeze", "full")],
    "lora_target": [{"method.targets": names} for names in (("all-linear",), ("q_proj", "v_proj"), ("q_proj",))],
    "freeze_trainable_modules": [{"method.freeze_trainable_modules": names} for names in (("all",), ("mlp", "attn"))],
    "freeze_extra_modules": [{"method.freeze_extra_modules": ("norm",)}],
    "ref_model": [{"method.reference_model": "shared", "method.kind": "lora"}],
    "pure_bf16": [PURE],
    "flash_attn": [
        {"attention.implementation": name} for name in ("eager", "sdpa", "flash_attention_2", "flash_attention_3")
    ],
    "disable_gradient_checkpointing": [{"checkpointing.mode": "none"}, {"checkpointing.mode": "full"}, UNSLOTH],
    "use_unsloth_gc": [UNSLOTH, {"checkpointing.offload": False}],
    "enable_liger_kernel": [
        {"loss.kind": "liger", "loss.liger_kernels": True},
        {"loss.kind": "plain", "loss.liger_kernels": False},
    ],
    "recompute_granularity": [{"checkpointing.mode": "full"}],
    **{
        key: [{"precision.compute": half, "precision.autocast": True, "precision.outputs_to_fp32": True}]
        for key, half in (("bf16", "bfloat16"), ("fp16", "float16"))
    },
    "image_max_pixels": [{"sequence.image_max_pixels": pixels} for pixels in (1024, 1_000_000)],
    "optim": [{"optimizer.name": name} for name in ("adamw_8bit", "paged_adamw_8bit", "adafactor")],
    "eval_strategy": [{"evaluation.enabled": False}],
    "accelerator_config": [{"parallelism.fsdp.reduces_each_backward": True}],
}
VALUES: dict[str, tuple[Any, ...]] = {"flag": (True, False), "whole": (1, 7), "number": (0.0, 0.25)}
V1_FILES = {
    "dist_config.reshard_after_forward": V1_BASE + "dist_config:\n  name: fsdp2\n",
    "dist_config.offload_params": V1_BASE + "dist_config:\n  name: fsdpturbo\n",
}


def changes_of(row: Key) -> list[dict[str, Any]]:
    """What to ask of a row of the v1 layout, or of a row without a `write` of its own."""
    return [{row.field: value} for value in (row.values.values() if row.values else VALUES[row.kind])]


def cases() -> Iterator[Any]:
    for table, files, base, known in ((KEYS, FILES, LORA, CHANGES), (KEYS_V1, V1_FILES, V1_BASE, {})):
        for row in table:
            if row.field and not row.read_only:
                for changes in known.get(row.name) or changes_of(row):
                    yield pytest.param(row, files.get(row.name, base), changes, id=f"{row.name}-{changes}")


@pytest.mark.parametrize(("row", "text", "changes"), list(cases()))
def test_what_a_row_writes_is_what_is_read(row: Key, text: str, changes: dict[str, Any]) -> None:
    parsed = parse(text, gpus=1)
    written = [
        row.written(FieldChange(field, value, changes, parsed.raw["config"], parsed.runs[0]))
        for field, value in changes.items()
        if field in row.fields
    ]
    assert any(said is not None for said in written)

    again = edited(text, changes, gpus=1)

    assert again is not None
    assert {field: get(again.runs[0], field) for field in changes} == changes
    assert not [issue for issue in again.issues if issue.severity == "error"]


def properties(layout: str) -> dict[str, Any]:
    """The schema of each key by name; those of a plug-in by dotted name."""
    compiled = compiled_schema(f"llamafactory.json#{layout}")
    found = dict(compiled.schema["properties"])
    for plugin in ("peft_config", "quant_config", "dist_config", "kernel_config", "optim_config"):
        inner = compiled.root["$defs"][plugin]["properties"] if plugin in found else {}
        found.update({f"{plugin}.{key}": schema for key, schema in inner.items()})
    return found


@pytest.mark.parametrize(("table", "layout"), TABLES)
def test_a_default_is_the_frameworks_own(table: Keys, layout: str) -> None:
    known = properties(layout)
    theirs = {row.name: known[row.name]["default"] for row in table if "default" in known[row.name]}
    theirs.pop("optim", None)  # it hangs on the releases of torch and transformers
    assert {name: table[name].default for name in theirs} == theirs


@pytest.mark.parametrize(("table", "layout"), TABLES)
def test_a_default_that_the_schema_does_not_know_is_one_of_its_values(table: Keys, layout: str) -> None:
    """Enumerations are no literals in LLaMA-Factory's source, so the schema has no default for them."""
    own = [row for row in table if row.default is not None and "." not in row.name]
    assert all(is_valid(f"llamafactory.json#{layout}", {row.name: row.default}) for row in own)


@pytest.mark.parametrize(("table", "layout"), TABLES)
def test_every_row_is_a_key_of_the_framework_with_a_description(table: Keys, layout: str) -> None:
    names = [row.name for row in table]
    assert len(set(names)) == len(names) and set(names) <= set(properties(layout))
    assert all(row.about.endswith(".") and row.about.count(". ") <= 2 for row in table)
    assert all(row.read_with in table and table[row.read_with].read for row in table if row.read_with)
