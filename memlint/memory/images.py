"""What images add to a step of an image-text model whose tower is frozen, at most.

Nobody can read from a config how many images a sample has; the sequence's bound holds whatever their number
(LLaMA-Factory and TRL cut at it), so at most every token is an image's. Simulated beside real inputs by
benchmarks/vision_steps.py.
"""

from __future__ import annotations

from memlint.architectures.model import Architecture, Tower
from memlint.memory.step import sequences_each
from memlint.run import Run

_PIXEL = 4  # processors give float32 pixels
_HALF = 2


def most_bytes(run: Run) -> int:
    """Bytes that a step holds beside the text model's when all tokens are images'; 0 where there is no image tower."""
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    length, micro = run.sequence.length, run.batch.micro_batch_size
    if tower is None or not isinstance(length, int) or not isinstance(micro, int):
        return 0
    tokens = length * micro * sequences_each(run)
    patches = patches_of(tower, tokens)
    scattered = tokens * architecture.hidden_size * _HALF  # embeddings with the features put in
    return patches * _pixels_per_patch(tower) * _PIXEL + scattered + _kept_by_the_hook(run, tower, patches)


def _kept_by_the_hook(run: Run, tower: Tower, patches: int) -> int:
    """Inputs that a frozen tower's layers keep under checkpointing: transformers 5.23 makes the output of the patch
    embedding ask for a gradient (modeling_utils.py:2150); LLaMA-Factory asks at trainable layers alone
    (model_utils/checkpointing.py:98)."""
    if run.checkpointing.mode in ("none", "selective") or run.stack.framework == "llamafactory":
        return 0
    around = 6  # patch embedding, positions, the last norm in fp32, the projector's input in fp32
    return patches * tower.hidden_size * _HALF * (tower.layers + around)


def patches_of(tower: Tower, tokens: int) -> int:
    """Patches of the tower behind so many tokens of the sequence."""
    if tower.tokens_per_image and tower.image_size:
        return tokens * (tower.image_size // tower.patch_size) ** 2 // tower.tokens_per_image
    return tokens * tower.merge_size**2


def _pixels_per_patch(tower: Tower) -> int:
    return 3 * tower.temporal_patch_size * tower.patch_size**2
