"""The closed form of an image-text model beside a simulated step that really reads images.

    python benchmarks/referee/vision_steps.py [MODEL...]

Models are small (tests/comparisons/vision_inputs.py), on fake tensors. The estimate's interval goes from a step without
images to one in which every token is an image's. Each way to train is simulated with images at three quarters of the
tokens and at all of them: frozen towers, towers and projectors that train in full or by LoRA, projectors alone, and
towers whose layers are checkpointed without re-entering ("not again").
The exit code is 1 where a simulated peak lies outside of its interval by more than TOLERANCE.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.memory.estimate import estimate
from tests.comparisons.families import Step
from tests.comparisons.vision_inputs import MODELS, simulated
from tests.comparisons.vision_steps import FROZEN, run_with

MIB = 1 << 20
TOLERANCE = 0.001  # copies of biases and lists of indices, which the closed form does not count
STEPS = tuple(
    Step(method, checkpointing, attention)
    for method in ("full", "pure", "lora")
    for checkpointing in (False, True)
    for attention in ("sdpa", "eager")
)


class Row(NamedTuple):
    """Bytes. `share`: of the tokens that are images'."""

    name: str
    step: Step
    trains: str
    share: float
    simulated: int
    low: int
    high: int

    @property
    def inside(self) -> bool:
        return self.low * (1 - TOLERANCE) <= self.simulated <= self.high * (1 + TOLERANCE)

    def line(self) -> str:
        label = f"{self.name:<10} {self.step.name:<24} {self.trains:<9} {self.share:4.0%} {self.simulated / MIB:9.1f}"
        ends = f"{self.low / MIB:9.1f} {self.high / MIB:9.1f}"
        ratios = f"{self.low / self.simulated:6.3f} {self.high / self.simulated:6.3f}"
        return f"{label} {ends} {ratios}{'' if self.inside else '  OUTSIDE'}"


def compare(name: str, step: Step, trains: str, share: float) -> Row:
    """One line of the table."""
    config, images = MODELS[name]
    run = run_with(config, step, trains)
    found = estimate(run)
    assert found.allocated_bytes is not None, found.unknown
    real = simulated(run, config, images, int(share * 1024) // images.tokens)
    low = found.allocated_low_bytes or found.allocated_bytes
    return Row(name, step, trains, share, real.peak, low, found.allocated_high_bytes or found.allocated_bytes)


def rows(names: list[str]) -> Iterator[Row]:
    for name in names:
        for step in STEPS:
            for trains in FROZEN:
                if step.method == "lora" and trains == "projector":
                    continue  # adapters of the projector come and go with the tower's
                if trains == "not again" and not step.checkpointing:
                    continue
                if name == "qwen2_5_omni" and trains not in ("frozen", "projector"):
                    continue  # its encoder of sounds would train as well, which is not modelled
                if name == "smolvlm" and step.method == "full" and trains != "trains":
                    continue  # its features take the dtype of frozen weights, and fp32 embeddings refuse them
                for share in (0.75, 1.0):
                    yield compare(name, step, trains, share)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    print("model      step                     trains   images simulated    lowest   highest  shares of it  (MiB)")
    found = []
    for row in rows(options.models):
        found.append(row)
        print(row.line(), flush=True)
    inside = sum(row.inside for row in found)
    full = [row.high / row.simulated for row in found if row.share == 1.0 and not any(FROZEN[row.trains])]
    print(f"{inside} of {len(found)} simulated peaks lie in their interval")
    if full:
        print(f"all tokens images', towers that train: highest / simulated {min(full):.3f} to {max(full):.3f}")
    return 0 if inside == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
