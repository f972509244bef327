"""What PyTorch's allocator keeps when batches differ in length, beside batches that are all alike.

    python benchmarks/referee/varied_lengths.py

Simulated steps of a model with Qwen2.5's vocabulary at 20 lengths up to 2,048 tokens, replayed through the modelled
caching allocator (memlint/memory/card/allocator.py): the longest step again and again; then 200 steps whose lengths are
drawn at random; then each length once, the shortest first. The model has few layers: what is kept beyond the tensors
depends on the logits.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memlint.memory.card.allocator import Allocator, AllocatorSettings, Block
from memlint.simulation.build import Adapter
from memlint.simulation.result import SimulatedStep
from memlint.simulation.step import StepSettings, simulate_settings

GIB = 1 << 30
BOUND = 2048
LAYERS, VOCABULARY = 4, 151_936
MODEL = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": True,
}
FULL = StepSettings(trainable="bfloat16")
LORA = StepSettings(trained="lora", adapter=Adapter(targets=("q_proj", "v_proj")))
CASES: Mapping[str, StepSettings] = {
    "full, loss over fp32 logits": FULL._replace(loss="upcast"),
    "LoRA, loss over fp32 logits": LORA._replace(loss="upcast"),
    "LoRA, 4 sequences a batch": LORA._replace(loss="upcast", micro_batch_size=4),
    "full, Liger's fused loss": FULL._replace(loss="liger"),
    "LoRA, Liger's fused loss": LORA._replace(loss="liger"),
}


def lengths() -> list[int]:
    """20 lengths as instruction data has them: log-normal, most of them short, the longest at the bound."""
    drawn = random.Random(1)
    return sorted({*(min(BOUND, max(64, int(drawn.lognormvariate(6.4, 0.7)))) for _ in range(19)), BOUND})


def reserved(steps: Mapping[int, SimulatedStep], order: Iterable[int], expandable: bool = False) -> int:
    """The most that the allocator reserved over steps of these lengths, bytes."""
    allocator = Allocator(AllocatorSettings(expandable_segments=expandable))
    before = _resident(steps[BOUND])
    for size in before:
        allocator.allocate(size)
    for length in order:
        _replay_step(allocator, steps[length])
    return allocator.peak_reserved


def _resident(step: SimulatedStep) -> list[int]:
    """Sizes of what lives through the whole trace: weights, states, inputs."""
    freed = {~event for event in step.events if event < 0}
    return [size for key, size in enumerate(step.sizes) if key not in freed]


def _replay_step(allocator: Allocator, step: SimulatedStep) -> None:
    """Everything of a trace that is freed again: the step."""
    freed = {~event for event in step.events if event < 0}
    held: dict[int, Block] = {}
    for event in step.events:
        if event < 0:
            allocator.free(held.pop(~event))
        elif event in freed:
            held[event] = allocator.allocate(step.sizes[event])


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    each = lengths()
    drawn = random.Random(2)
    order = [drawn.choice(each) for _ in range(200)]
    print("| GiB reserved | tensors | alike | lengths vary | with expandable segments | the shortest first |")
    print("|---|---|---|---|---|---|")
    for name, settings in CASES.items():
        steps = {
            length: simulate_settings("Qwen2Config", MODEL, settings._replace(sequence_length=length))
            for length in each
        }
        figures = [
            steps[BOUND].peak,
            reserved(steps, [BOUND] * 4),
            reserved(steps, order),
            reserved(steps, order, expandable=True),
            reserved(steps, each),
        ]
        print(f"| {name} | " + " | ".join(f"{figure / GIB:.2f}" for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
