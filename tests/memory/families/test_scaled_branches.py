"""Families whose layers multiply each branch before they add it, against transformers' own layers."""

from __future__ import annotations

import re
from pathlib import Path

import transformers

import memlint.memory.layers.decoder_layer as decoder_layer
from memlint.memory.autograd.tape import Value, counters
from memlint.memory.families.lookup import of_layer
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext

MODELS = Path(transformers.__file__).parent / "models"
LAYER = re.compile(r"^class (\w+DecoderLayer)\b.*?(?=^class |\Z)", re.MULTILINE | re.DOTALL)
SCALED = re.compile(r"\* self\.(residual_multiplier|residual_scale)\b")


def test_rows_that_scale_branches_are_those_of_layers_that_do() -> None:
    layers = [found for file in MODELS.glob("*/modeling_*.py") for found in LAYER.finditer(file.read_text("utf-8"))]
    scaling = {found[1] for found in layers if SCALED.search(found[0])}
    assert {"GraniteDecoderLayer", "MiniCPM3DecoderLayer"} <= scaling
    assert {found[1] for found in layers if of_layer(found[1]).scales_branches} == scaling


def test_a_scaled_branch_is_one_more_hidden_state() -> None:
    assert hidden_states_at_the_sum("GraniteDecoderLayer") == hidden_states_at_the_sum("JetMoeDecoderLayer") + 1


def hidden_states_at_the_sum(class_name: str) -> int:
    tape = KernelConfig().tape()
    nothing = Value.external("rope", 2)
    context = LayerContext(tape, KernelConfig(), {}, nothing, nothing, of_layer(class_name))
    residual, branch = tape.new("hidden", 2), tape.new("hidden", 2)
    decoder_layer._plus(context, residual, branch)
    return max(sum(counters(live)) for live in tape.take_peaks().packed)
