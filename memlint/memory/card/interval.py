"""How far a peak may lie from the central figure, in both directions, by what the file leaves open."""

from __future__ import annotations

import memlint.memory.card.deviations as deviations
from memlint.architectures.model import Architecture, Mlp
from memlint.memory.phases import phases, phases_with_images
from memlint.memory.step import training_step
from memlint.memory.storage import BYTES
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run, replace


def of_features(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> tuple[int, int]:
    """The lowest and the highest peak, bytes, by the family's distance from its simulated steps and by features that
    keep less than is modelled."""
    low, high = deviations.bounds(run, found)
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        return unsloth.ends(run, units, state, found)
    if run.model.quantization.experts_on_load:  # a checkpoint that holds them as one stack loads without a second copy
        low = min(low, max(_allocated(phase) for phase in found if phase.name != "load"))
    if run.checkpointing.mlp_tiles:
        high += _accumulated(run, units)
    softer = _softer(run)
    if softer is not None:
        least, _ = phases(training_step(softer, units), units, state)
        low = min(low, max(map(_allocated, least + found[len(least) :])))
    return low, high


def with_images(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> int:
    """The highest peak, bytes, when every token is an image's."""
    import memlint.memory.vision.images as images
    import memlint.memory.vision.towers as towers

    architecture: Architecture = run.model.architecture
    if not towers.are_known(architecture):
        return deviations.bounds(run, found)[1] + images.most_bytes(run)
    most = phases_with_images(training_step(run, units), units, state)
    return deviations.bounds(run, most + found[len(most) :])[1]


def without_images(run: Run) -> Run | None:
    """The run that this one is as long as it sees no image; None where every step sees one.

    A tower without images gets no gradients, so that its optimizer makes no states; nor does one that a script froze.
    """
    if run.sequence.always_has_images:
        return None
    return replace(run, {"method.freeze_vision_tower": True, "method.freeze_multi_modal_projector": True})


def _softer(run: Run) -> Run | None:
    """The run that this one can come down to, where a feature keeps less than the operations do by an amount that is
    not modelled: selective checkpointing and offloaded activations at least a layer's input, torch.compile what its
    fused kernels still need, a loss in chunks what a fused one does, tiled MLPs one tile's; flash-linear-attention and
    mamba_ssm where nobody said that they are missing."""
    changes: dict[str, object] = {}
    if run.checkpointing.mode == "selective" or run.stack.compile:
        changes["checkpointing.mode"] = "full"
    if run.offload.activations != "none" and run.checkpointing.mode == "none":
        changes |= {"checkpointing.mode": "full", "checkpointing.offload": True}
    if has_own_kernels(run):
        changes["stack.linear_attention"] = "kernels"
    if (run.stack.compile or run.loss.in_chunks) and run.loss.kind == "plain":
        changes["loss.kind"] = "fused_ce"
    if run.checkpointing.mlp_tiles > 1:
        changes["model.architecture"] = _one_tile(run.model.architecture, run.checkpointing.mlp_tiles)
    return replace(run, changes) if changes else None


def _accumulated(run: Run, units: tuple[Unit, ...]) -> int:
    """What tiled MLPs make beside what they save: the gradient of their input, their output joined from slices, and
    sums of their parameters' gradients (axolotl 0.19.0 monkeypatch/tiled_mlp/base.py, TiledMLP)."""
    tokens = training_step(run, units).tokens.count
    sums = (sum(t.numel * BYTES.get(t.dtype, 0) for t in unit.tensors if t.trainable) for unit in units)
    architecture: Architecture = run.model.architecture
    return 2 * 4 * tokens * architecture.hidden_size + max(sums, default=0)


def _one_tile(architecture: Architecture, tiles: int) -> Architecture:
    """The architecture with as much of its MLPs as one tile of the sequence takes."""
    kinds = tuple(kind._replace(mlp=_tile(kind.mlp, tiles)) for kind in architecture.layer_types)
    return architecture._replace(layer_types=kinds)


def _tile(mlp: Mlp, tiles: int) -> Mlp:
    return mlp._replace(
        intermediate_size=mlp.intermediate_size // tiles, shared_intermediate_size=mlp.shared_intermediate_size // tiles
    )


def has_own_kernels(run: Run) -> bool:
    """Whether layers may run kernels that nobody spoke of."""
    layers = run.model.architecture.layer_types
    kinds = {mixer.kind for layer in layers for mixer in (layer.attention, layer.parallel_ssm) if mixer is not None}
    said = run.stack.linear_attention
    return ("mamba2" in kinds and said in ("", "fla")) or ("gated_delta" in kinds and not said)


def _allocated(phase: Phase) -> int:
    return phase.allocated_bytes
