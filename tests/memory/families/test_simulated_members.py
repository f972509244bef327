"""Estimates of small members beside the simulated steps that benchmarks/data/families.jsonl keeps: a step for each
trait that changes a peak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.memory.estimate import estimate
from tests.comparisons.families import Step, members, run_of

KEPT = Path(__file__).resolve().parents[3] / "benchmarks" / "data" / "families.jsonl"
CASES = {
    "keys and values that the language model of an image-text model caches": ("llava", Step("full", False, "sdpa")),
    "no cache where the model hands over its own setting": ("llava_next", Step("full", False, "sdpa")),
    "cached keys that are normed after their rotation": ("hunyuan_vl", Step("full", False, "sdpa")),
    "an embedding that is scaled outside of its module": ("granite", Step("lora", True, "sdpa")),
    "the same in a model after Granite": ("hyperclovax", Step("lora", True, "sdpa")),
    "an embedding that is scaled in its module": ("gemma2", Step("lora", True, "eager")),
    "positions and dropout after a frozen embedding": ("gpt2", Step("lora", True, "sdpa")),
    "masks of a model whose first layer attends fully": ("cwm", Step("full", True, "eager")),
    "variables that hold the first block's tensors": ("stablelm", Step("lora", True, "sdpa")),
    "RMSNorm that scales in fp32, the last one too": ("helium", Step("pure", False, "sdpa")),
    "LayerNorm in the dtype of autocast": ("nemotron", Step("lora", False, "sdpa")),
    "a residual stream in fp32": ("mamba2", Step("pure", True, "sdpa")),
    "an output that is scaled in place": ("gemma4_text", Step("pure", False, "sdpa")),
    "distances that each layer looks its biases up by": ("umt5", Step("full", False, "sdpa")),
    "distances of a layer that runs again": ("t5", Step("pure", True, "sdpa")),
    "what the derivative of expm1 makes": ("apertus", Step("lora", True, "sdpa")),
    "LayerNorms of queries and keys": ("persimmon", Step("pure", True, "sdpa")),
    "a gated delta net whose projections are all separate": ("olmo_hybrid", Step("lora", False, "sdpa")),
    "cached keys whose norm has a weight in fp32": ("lfm3_vl", Step("full", False, "sdpa")),
    "a softmax of the chosen experts' logits": ("aria", Step("full", False, "sdpa")),
    "no cache, a scaled embedding and two groups of projectors": ("granite4_vision", Step("full", False, "sdpa")),
    "the gradient that a reentrant checkpoint holds": ("llama", Step("pure", True, "eager")),
    "a decoder whose first layer reads a frozen embedding": ("whisper", Step("lora", False, "sdpa")),
    "a normed input that the layer itself projects": ("whisper", Step("lora", True, "sdpa")),
    "attention weights that those of the next attention replace": ("t5", Step("full", False, "eager")),
    "an RMSNorm that multiplies its input": ("t5", Step("pure", False, "sdpa")),
    "attention's output that a layer's variables hold": ("nomic_bert", Step("lora", True, "sdpa")),
    "the second norm's output that they hold": ("gpt_bigcode", Step("full", True, "sdpa")),
    "tables that each layer casts": ("hunyuan_vl", Step("lora", False, "sdpa")),
    "a dropout inside of the MLP without a cast": ("gte", Step("full", False, "sdpa")),
    "RMSNorm's weight in fp32 in a mixture of experts": ("gpt_oss", Step("pure", False, "eager")),
    "the same with norms of queries and keys": ("afmoe", Step("pure", False, "sdpa")),
    "scores that are clamped": ("xglm", Step("pure", False, "eager")),
    "dropout of weights that no variable holds, and a buffer in each layer": (
        "openai-gpt",
        Step("pure", False, "eager"),
    ),
    "a mask of a byte for each pair": ("mpt", Step("full", True, "eager")),
    "masks of layers with a window and without": ("granite_swa", Step("full", True, "eager")),
    "the same in a mixture": ("granitemoe_swa", Step("full", True, "eager")),
    "a buffer of all positions in each layer": ("gpt_neo", Step("full", False, "eager")),
    "GELU op by op": ("esm", Step("pure", False, "eager")),
    "weights that the layer before returned": ("megatron-bert", Step("full", False, "eager")),
    "dropout after attention alone": ("xlm-roberta-xl", Step("pure", False, "sdpa")),
    "tables of each sequence": ("modernbert-decoder", Step("full", True, "sdpa")),
    "layers with rotation and without": ("cohere_compass", Step("full", True, "sdpa")),
    "a router that divides the chosen scores": ("kolibri1", Step("full", False, "sdpa")),
    "a norm's output that the projection's name takes": ("roberta-prelayernorm", Step("lora", True, "sdpa")),
    "the same without dropout after the MLP": ("xlm-roberta-xl", Step("lora", True, "sdpa")),
    "an encoder's end without a norm": ("florence2", Step("full", True, "sdpa")),
    "the gradient of the encoder's output, whole after one layer": ("bart", Step("pure", True, "sdpa")),
    "the encoder's output in half precision, once in a recomputed layer": ("florence2", Step("lora", True, "sdpa")),
    "a mask between both sides in the dtype of the encoder's output": ("mbart", Step("lora", True, "eager")),
    "biases of its own until attention has projected its output": ("umt5", Step("full", False, "eager")),
    "scores until attention returns, and distances": ("mpnet", Step("pure", False, "eager")),
    "parts of a fused projection that a cache copies": ("fuyu", Step("full", False, "sdpa")),
    "cached keys that a LayerNorm made fp32": ("fuyu", Step("lora", False, "sdpa")),
    "attention's output that a decoder's variables hold": ("modernbert-decoder", Step("lora", True, "sdpa")),
    "a mask of one row for all queries": ("layoutlm", Step("full", True, "eager")),
    "a head for masked words that writes GELU out": ("esm", Step("lora", False, "sdpa")),
    "a mask in the dtype of a projected embedding": ("roformer", Step("full", False, "eager")),
}


def _kept(family: str, step: Step) -> dict[str, Any]:
    rows = map(json.loads, KEPT.read_text(encoding="utf-8").splitlines())
    return next(row for row in rows if (row["family"], row["step"]) == (family, step.name))


@pytest.mark.parametrize("family, step", CASES.values(), ids=CASES)
def test_the_peak_is_that_of_the_simulated_step(family: str, step: Step) -> None:
    found = estimate(run_of(members()[family], step))
    ours = {phase.name: phase.allocated_bytes for phase in found.phases}
    theirs = _kept(family, step)["simulated"]
    assert max(ours[name] for name in theirs) == pytest.approx(max(theirs.values()), rel=0.01)
    assert ours["forward"] == pytest.approx(theirs["forward"], rel=0.015)
