"""Questions as they are asked in forums, beside figures worked out by hand, GiB on one card."""

from __future__ import annotations

import pytest

from memlint.lint.request import StatedFacts
from memlint.question import answer, question_of
from memlint.question.serving import serving

GIB = 2**30


def weights(**asked: object) -> tuple[float, str]:
    """GiB of weights on one card while the model serves, and the verdict."""
    found = answer(question_of({"inference": True, **asked})).run.estimate
    return found.phases[0].components["weights"] / GIB, found.verdict


@pytest.mark.parametrize(
    ("asked", "gib", "verdict"),
    [
        # 671 B parameters in fp8 and their scales, over eight cards; a few tensors in bf16 are whole on each
        ({"model": "deepseek-v3", "gpu": "8xH200", "engine": "vllm"}, 671.03e9 / 8 / GIB, "fits"),
        ({"model": "deepseek-r1", "gpu": "8xH100", "engine": "sglang"}, 671.03e9 / 8 / GIB, "out_of_memory"),
        # LLaMA-Factory's own loader turns fp8 into bf16
        ({"model": "deepseek-v3", "gpu": "8xH200"}, 2 * 671.03e9 / 8 / GIB, "out_of_memory"),
        # 117 B parameters in mxfp4, embeddings and attention in bf16: the checkpoint has 60.8 GiB
        ({"model": "gpt-oss-120b", "gpu": "H100", "engine": "vllm"}, 61.0, "fits"),
        # half of 36.8 GiB, 1.25 layers of 0.43 GiB more: accelerate spreads whole modules, the head is on the second
        ({"model": "llama-3-70b", "gpu": "2xRTX3090", "bits": 4}, 20.0, "tight"),
        ({"model": "llama-3.1-70b", "gpu": "4xA100-40GB", "engine": "vllm"}, 2 * 70.55e9 / 4 / GIB, "fits"),
        ({"model": "llama-3.1-405b", "gpu": "8xH100", "engine": "vllm"}, 2 * 405.85e9 / 8 / GIB, "out_of_memory"),
        ({"model": "llama-3.1-405b", "gpu": "8xH200", "engine": "vllm"}, 2 * 405.85e9 / 8 / GIB, "fits"),
        ({"model": "qwen2.5-14b", "gpu": "2xA10G", "engine": "vllm"}, 2 * 14.77e9 / 2 / GIB, "fits"),
    ],
)
def test_weights_are_those_of_the_checkpoint(asked: dict[str, object], gib: float, verdict: str) -> None:
    assert weights(context=4096, **asked) == (pytest.approx(gib, rel=0.1), verdict)


def test_eight_bits_go_to_one_card() -> None:
    with pytest.raises(Exception, match="puts 8-bit weights on one"):
        answer(question_of({"model": "llama-3-70b", "inference": True, "bits": 8, "gpus": 2}))


def test_most_requests_are_those_of_the_engine_that_was_taken() -> None:
    """Several cards and more than one request would be vLLM's, where any number waits its turn."""
    found = answer(question_of({"model": "qwen2.5-32b", "inference": True, "gpu": "A100-40GB", "gpus": 2}))
    room = serving(found, StatedFacts(isolated=True))
    assert room is not None and room.most_requests == 1


def test_a_quantised_checkpoint_has_no_other_precision() -> None:
    found = answer(question_of({"model": "gpt-oss-20b", "inference": True}))
    room = serving(found, StatedFacts(isolated=True))
    assert room is not None and [name for name, _ in room.weights] == ["fp32", "bf16"]
    assert any("mxfp4" in one.why for one in found.files.taken if one.field == "engine")


@pytest.mark.parametrize(
    ("asked", "gib"),
    [
        # 16 bytes of each of 7.62 B parameters: bf16 weights whole, 14 bytes of the rest over eight cards, then ZeRO's
        ({"model": "qwen2.5-7b", "method": "full", "zero": 3, "gpus": 8}, 16 * 7.62e9 / 8 / GIB),
        ({"model": "llama-3-8b", "method": "full", "zero": 3, "gpus": 8}, 16 * 8.03e9 / 8 / GIB),
        ({"model": "qwen2.5-72b", "method": "full", "zero": 3, "gpus": 16}, 16 * 72.7e9 / 16 / GIB),
        # 4 + 4 + 8 bytes on one card
        ({"model": "llama-2-7b", "method": "full"}, 16 * 6.74e9 / GIB),
        # 2 + 2 bytes, 8-bit states of all but the embeddings (8 bytes)
        (
            {"model": "llama-3.1-8b", "method": "full", "dtype": "pure_bf16", "optimizer": "adamw_8bit"},
            (4 * 8.03e9 + 2.03 * 7.50e9 + 8 * 0.525e9) / GIB,
        ),
        ({"model": "llama-2-7b", "method": "lora"}, 2 * 6.74e9 / GIB),
    ],
)
def test_states_are_bytes_of_the_parameters(asked: dict[str, object], gib: float) -> None:
    found = answer(question_of(asked)).run.estimate
    states = [
        sum(phase.components[name] for name in ("weights", "gradients", "optimizer_states")) for phase in found.phases
    ]
    assert max(states[3:4]) / GIB == pytest.approx(gib, rel=0.05)
