"""Any JSON value is an architecture or a reason, never a crash, and never a huge computation."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import UnsupportedConfig, from_config, resolve
from memlint.architectures.builder import families
from memlint.architectures.model import parameters

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
FIELDS = st.sampled_from(
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "intermediate_size",
        "layer_types",
        "text_config",
        "vision_config",
        "audio_config",
        "thinker_config",
        "quantization_config",
        "torch_dtype",
        "n_layer",
        "sliding_window",
        "attn_config",
        "ffn_config",
        "num_experts",
        "num_local_experts",
        "attention_types",
        "mlp_only_layers",
        "rope_parameters",
        "hybrid_override_pattern",
        "intermediate_size",
        "vision_feature_layer",
        "linear_attn_config",
        "q_lora_rank",
        "patch_size",
    ]
)


def _attempt(config: Any) -> None:
    try:
        assert parameters(from_config(config)) >= 0
    except UnsupportedConfig as error:
        assert str(error)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(families())), st.dictionaries(FIELDS, VALUES, max_size=6))
def test_any_values_of_known_fields(family: str, values: dict[str, Any]) -> None:
    _attempt({"model_type": family, **values})


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_any_json(value: Any) -> None:
    _attempt(value)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_any_name(name: str) -> None:
    resolution = resolve(name)
    assert (resolution.architecture is None) == bool(resolution.reason)
