"""Where keys and values may stand while a file is typed, and which are offered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlint.formats.deepspeed.format as deepspeed
import memlint.formats.llamafactory.format as llamafactory
import memlint.formats.trainer.format as trainer
from memlint.lsp.completion import Cursor, KeySource, completions, cursor
from memlint.run import Run, Stack


def at(path: str, text: str) -> Cursor | None:
    """The cursor at `|` in a text."""
    before, _, after = text.partition("|")
    return cursor(path, before + after, len(before))


@pytest.mark.parametrize(
    "text, pointer, word, key",
    [
        ("per_de|", (), "per_de", ""),
        ("a: 1\n|", (), "", ""),
        ("a: 1\nper_device|\nb: 2\n", (), "per_device", ""),
        ("bf16: |", (), "", "bf16"),
        ("bf16: tr|", (), "tr", "bf16"),
        ("fsdp_config:\n  fsdp_st|", ("fsdp_config",), "fsdp_st", ""),
        ("a:\n  b: 1\n\n  # note\n  c|", ("a",), "c", ""),
        ("a:\n  b:\n    c: |", ("a", "b"), "", "c"),
        ("a:\n  b: 1\nc|", (), "c", ""),
    ],
)
def test_places_in_yaml(text: str, pointer: tuple[str, ...], word: str, key: str) -> None:
    found = at("a.yaml", text)

    assert found is not None
    assert (found.pointer, found.word, found.key) == (pointer, word, key)


@pytest.mark.parametrize("text", ["a: 1 # per|", "a: b c|", "a: [b, |", "a: 1\n  b|", '"a|'])
def test_no_key_stands_here(text: str) -> None:
    assert at("a.yaml", text) is None


@pytest.mark.parametrize(
    "text, pointer, word, key",
    [
        ('{"ze|', (), "ze", ""),
        ('{"a": 1, "|"}', (), "", ""),
        ('{"zero_optimization": {"sta|', ("zero_optimization",), "sta", ""),
        ('{"zero_optimization": {"stage": |', ("zero_optimization",), "", "stage"),
        ('{"fp16": {"enabled": "au|"', ("fp16",), "au", "enabled"),
        ('{"a": [1, {"b": 2}], "fp16": {"enabled": t|', ("fp16",), "t", "enabled"),
        ('{"a": "x, \\" {", "|', (), "", ""),
    ],
)
def test_places_in_json(text: str, pointer: tuple[str, ...], word: str, key: str) -> None:
    found = at("ds.json", text)

    assert found is not None
    assert (found.pointer, found.word, found.key) == (pointer, word, key)


def test_a_flag_of_a_script() -> None:
    assert at("run.sh", "torchrun train.py --per-dev|") == Cursor("shell", (), "per_dev")
    assert at("run.sh", "echo per|") is None
    assert at("train.py", "--per|") is None


@given(st.text(st.sampled_from('a"{}[]:, \n\\#-'), max_size=40), st.sampled_from(["a.yaml", "a.json", "a.sh"]))
def test_any_text_has_a_cursor_or_none(text: str, path: str) -> None:
    for offset in range(len(text) + 1):
        found = cursor(path, text, offset)
        if found is not None:
            list(completions(found, KeySource(trainer)))  # type: ignore[arg-type]


def offered(place: Cursor | None, source: KeySource) -> dict[str, str]:
    assert place is not None
    return {item.label: item.detail or "" for item in completions(place, source)}


def test_keys_come_with_kind_default_and_description() -> None:
    found = {item.label: item for item in completions(Cursor("yaml", ()), KeySource(llamafactory))}  # type: ignore[arg-type]

    batch = found["per_device_train_batch_size"]
    assert batch.detail == "integer, default 8"
    assert batch.insert_text == "per_device_train_batch_size: "
    assert "Activations" in getattr(batch.documentation, "value", "")
    assert found["bf16"].detail is not None and found["bf16"].detail.startswith("true or false")


def test_a_key_that_is_there_is_not_offered_again() -> None:
    place = at("a.yaml", "bf16: true\n|\nfp16: false\n")

    assert {"bf16", "fp16"}.isdisjoint(offered(place, KeySource(llamafactory)))  # type: ignore[arg-type]


def test_the_release_in_force_decides_which_keys_there_are() -> None:
    """transformers 5 removed `save_safetensors`, and 4 had it."""
    old = Run("trainer", "a.yaml", stack=Stack("trainer", transformers=(4, 48)))
    new = Run("trainer", "a.yaml", stack=Stack("trainer", transformers=(5, 23)))

    names = [offered(Cursor("yaml", ()), KeySource(trainer, run)) for run in (old, new)]  # type: ignore[arg-type]

    assert "save_safetensors" in names[0]
    assert "save_safetensors" not in names[1]


def test_values_with_the_default_first() -> None:
    stage = list(offered(Cursor("json", ("zero_optimization",), key="stage"), KeySource(deepspeed)))  # type: ignore[arg-type]
    flag = list(offered(Cursor("yaml", (), key="bf16"), KeySource(llamafactory)))  # type: ignore[arg-type]

    assert stage[0] == "0" and set(stage) >= {"0", "1", "2", "3"}
    assert set(flag) == {"true", "false"}


def test_text_is_quoted_in_json() -> None:
    cursor_ = Cursor("json", ("zero_optimization", "offload_optimizer"), key="device")
    plain = {item.label: item.insert_text for item in completions(cursor_, KeySource(deepspeed))}  # type: ignore[arg-type]

    assert plain["cpu"] == '"cpu"'


def test_an_unknown_key_has_no_values() -> None:
    assert offered(Cursor("yaml", ("nothing",), key="here"), KeySource(llamafactory)) == {}  # type: ignore[arg-type]
    assert offered(Cursor("yaml", ("nothing",)), KeySource(llamafactory)) == {}  # type: ignore[arg-type]
