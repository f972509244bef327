"""Reading a config.json that may hold anything: names, defaults, kinds and bounds of its values."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.architectures.config import LARGEST_EXTENT, MOST_LAYERS, ModelConfig, UnsupportedConfig

DEFAULTS = {"hidden_size": 64, "n_head": 4, "dropout": 0.1}
ALIASES = {"num_attention_heads": "n_head"}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2), st.just(10**400),
)  # fmt: skip


def config(**values: Any) -> ModelConfig:
    return ModelConfig(values, "llama", DEFAULTS, ALIASES)


def test_an_absent_key_has_the_class_default_and_null_has_not() -> None:
    assert config().get("hidden_size") == 64
    assert config(hidden_size=None).get("hidden_size", "else") == "else"
    assert config().get("unheard_of", 3) == 3


def test_a_key_is_found_by_both_its_names() -> None:
    assert config(n_head=8).integer("num_attention_heads") == 8
    assert config(num_attention_heads=16, n_head=8).integer("num_attention_heads") == 16
    assert config().integer("num_attention_heads") == 4


def test_a_key_is_there_if_the_file_has_it() -> None:
    assert config(n_head=8).has("num_attention_heads")
    assert not config().has("hidden_size")
    assert not config(hidden_size=None).has("hidden_size")


@pytest.mark.parametrize("value", [1, 64.0, LARGEST_EXTENT])
def test_a_size_is_a_whole_number(value: Any) -> None:
    assert config(hidden_size=value).integer("hidden_size") == value


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "64", None, [64], LARGEST_EXTENT + 1, float("inf"), float("nan")])
def test_what_is_no_size_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(UnsupportedConfig, match=r"`hidden_size` of this llama config is .*, not a size"):
        config(hidden_size=value).integer("hidden_size")


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(UnsupportedConfig) as caught:
        config(hidden_size="x" * 1_000).integer("hidden_size")
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("count", [MOST_LAYERS + 1, 10**6])
def test_no_model_has_so_many_layers(count: int) -> None:
    assert config(num_hidden_layers=MOST_LAYERS).layers() == MOST_LAYERS
    with pytest.raises(UnsupportedConfig, match="more than any real model has"):
        config(num_hidden_layers=count).layers()


def test_a_value_of_another_kind_counts_as_absent() -> None:
    odd = config(dropout="high", tie="yes", name=3, kinds="abc", rope=[1])

    assert (odd.number("dropout", 0.5), odd.flag("tie", True), odd.text("name", "x")) == (0.5, True, "x")
    assert (odd.items("kinds"), odd.mapping("rope")) == ([], {})


@given(VALUES)
def test_no_value_raises_anything_else(value: Any) -> None:
    odd = config(key=value)
    found = (odd.number("key"), odd.flag("key"), odd.text("key"), odd.items("key"), odd.mapping("key"))
    assert abs(found[0]) <= LARGEST_EXTENT
    assert [type(one) for one in found[:4]] == [float, bool, str, list]
    with contextlib.suppress(UnsupportedConfig):
        assert 1 <= odd.integer("key") <= LARGEST_EXTENT
