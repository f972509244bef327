"""The lowest and the highest peak of the runs that a file may stand for, where it leaves something open."""

from __future__ import annotations

import memlint.memory.card.deviations as deviations
import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, Mlp
from memlint.memory.phases import phases, phases_with_images
from memlint.memory.step import training_step
from memlint.memory.storage import BYTES
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run, replace


def of_features(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> tuple[int, int]:
    """The lowest and the highest peak, bytes.

    They follow from how far the model family is from its simulated steps, and from features that need less memory than
    is modelled.
    """
    low, high = deviations.bounds(run, found)
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        return unsloth.ends(run, units, state, found)
    if run.model.quantization.experts_on_load:  # a checkpoint that holds them as one stack loads without a second copy
        low = min(low, max(_allocated(phase) for phase in found if phase.name != "load"))
    if run.checkpointing.mlp_tiles:
        high += _tiling_temporaries(run, units)
    if families.of(run.model.architecture).attention.eager_at_first and run.attention.implementation == "sdpa":
        eager = replace(run, {"attention.implementation": "eager"})
        most, _ = phases(training_step(eager, units), units, state)
        high = max(high, deviations.bounds(eager, most + found[len(most) :])[1])
    softer = _least_memory_variant(run)
    if softer is not None:
        least, _ = phases(training_step(softer, units), units, state)
        low = min(low, max(map(_allocated, least + found[len(least) :])))
    return low, high


def with_images(run: Run, units: tuple[Unit, ...], state: ModelState, found: tuple[Phase, ...]) -> int:
    """The highest peak, bytes, when every token belongs to an image."""
    import memlint.memory.vision.images as images
    import memlint.memory.vision.towers as towers

    architecture: Architecture = run.model.architecture
    if not towers.are_modelled(architecture):  # a known number of images counts in `max_image_bytes`
        return deviations.bounds(run, found)[1] + images.max_image_bytes(run)
    if run.sequence.images == 0:
        return 0
    most = phases_with_images(training_step(run, units), units, state)
    return deviations.bounds(run, most + found[len(most) :])[1]


def images_counted(run: Run, units: tuple[Unit, ...]) -> int:
    """Images in each sample that the central figure stands for: as many as are stated, else one where a tower or a
    projector trains, which no sample without an image does, else none."""
    import memlint.memory.vision.towers as towers

    if not towers.are_modelled(run.model.architecture):
        return 0
    stated = run.sequence.images
    return stated if isinstance(stated, int) else int(towers.trains(units))


def without_images(run: Run) -> Run | None:
    """The run as it is while it sees no image: the tower counts as frozen. None where every step sees an image.

    A tower without images gets no gradients, so that the optimizer makes no states for it; nor does it for a tower that
    a script froze.
    """
    if run.sequence.always_has_images or isinstance(run.sequence.images, int):
        return None
    return replace(run, {"method.freeze_vision_tower": True, "method.freeze_multi_modal_projector": True})


def _least_memory_variant(run: Run) -> Run | None:
    """A run that needs the least memory that this one may need; None where all features are modelled exactly.

    How much these save is not modelled, so that the most that they can save counts: selective checkpointing and
    offloaded activations keep at least the input of a layer; torch.compile what its fused kernels need; a loss in
    chunks what a fused one does; tiled MLPs one tile. flash-linear-attention and mamba_ssm may be installed where the
    file does not say.
    """
    changes: dict[str, object] = {}
    if run.checkpointing.mode == "selective" or run.stack.compile:
        changes["checkpointing.mode"] = "full"
    if run.offload.activations != "none" and run.checkpointing.mode == "none":
        changes |= {"checkpointing.mode": "full", "checkpointing.offload": True}
    if may_have_kernels(run):
        changes["stack.linear_attention"] = "kernels"
    if (run.stack.compile or run.loss.in_chunks) and run.loss.kind == "plain":
        changes["loss.kind"] = "fused_ce"
    if run.checkpointing.mlp_tiles > 1:
        changes["model.architecture"] = _with_tiled_mlps(run.model.architecture, run.checkpointing.mlp_tiles)
    return replace(run, changes) if changes else None


def _tiling_temporaries(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes that tiled MLPs allocate beside what they save: the gradient of their input, their output concatenated from
    tiles, and sums of their parameters' gradients (axolotl 0.19.0 monkeypatch/tiled_mlp/base.py, TiledMLP)."""
    tokens = training_step(run, units).tokens.count
    sums = (sum(t.numel * BYTES.get(t.dtype, 0) for t in unit.tensors if t.trainable) for unit in units)
    architecture: Architecture = run.model.architecture
    return 2 * 4 * tokens * architecture.hidden_size + max(sums, default=0)


def _with_tiled_mlps(architecture: Architecture, tiles: int) -> Architecture:
    """The architecture with MLPs as small as one tile of the sequence makes their activations."""
    kinds = tuple(kind._replace(mlp=_tile(kind.mlp, tiles)) for kind in architecture.layer_types)
    return architecture._replace(layer_types=kinds)


def _tile(mlp: Mlp, tiles: int) -> Mlp:
    return mlp._replace(
        intermediate_size=mlp.intermediate_size // tiles, shared_intermediate_size=mlp.shared_intermediate_size // tiles
    )


def may_have_kernels(run: Run) -> bool:
    """Whether layers may run kernels of packages of which the file does not say whether they are installed."""
    layers = run.model.architecture.layer_types
    kinds = {mixer.kind for layer in layers for mixer in (layer.attention, layer.parallel_ssm) if mixer is not None}
    package = run.stack.linear_attention
    return ("mamba2" in kinds and package in ("", "fla")) or ("gated_delta" in kinds and not package)


def _allocated(phase: Phase) -> int:
    return phase.allocated_bytes
