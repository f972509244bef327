"""How far the closed form is from simulated steps of a model family, as a share of a step's transient bytes.

deviations.json is written by `python benchmarks/referee/families.py --write`: for each family and attention the lowest
and the highest (simulated - estimated) / transient over small members of the family. Families within 1 % are left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import lru_cache

from memlint.memory.values import Phase
from memlint.run import Run

FILE = os.path.join(os.path.dirname(__file__), "deviations.json")
_STEP = ("forward", "backward")
_TRANSIENT = ("activations", "logits", "temporaries")


def bounds(run: Run, phases: Sequence[Phase]) -> tuple[int, int]:
    """The lowest and the highest peak, bytes, by the deviations of this family's simulated steps."""
    lowest, highest = _shares(run)
    allocated = max(phase.allocated_bytes for phase in phases)
    if not lowest and not highest:
        return allocated, allocated
    return _peak(phases, lowest), _peak(phases, highest)


def transient(phase: Phase) -> int:
    """What a phase allocates beside weights, gradients and optimizer states, bytes."""
    return sum(phase.components.get(name, 0) for name in _TRANSIENT)


def _peak(phases: Sequence[Phase], share: float) -> int:
    return max(
        phase.allocated_bytes + (int(share * transient(phase)) if phase.name in _STEP else 0) for phase in phases
    )


def _shares(run: Run) -> tuple[float, float]:
    """The deviations of the run's model; its language model's where the whole model was not simulated (Llama 4)."""
    architecture, table = run.model.architecture, _table()
    family = getattr(architecture, "family", "")
    if getattr(architecture, "per_layer_embedding_size", 0):
        family = f"{family}/own_embeddings" if f"{family}/own_embeddings" in table else family
    attention = "eager" if run.attention.implementation == "eager" else "sdpa"
    lowest, highest = (table.get(family) or table.get(f"{family}_text", {})).get(attention, (0.0, 0.0))
    return lowest, highest


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, tuple[float, float]]]:
    with open(FILE, encoding="utf-8") as file:
        table: dict[str, dict[str, tuple[float, float]]] = json.load(file)
    return table
