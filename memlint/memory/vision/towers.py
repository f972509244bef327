"""A vision tower that runs with gradients: its segments of the step, with images in the place of every token.

What a tower's layers keep follows from their operations, like a decoder layer's; how many patches go through them
follows from the sequence, which images are part of. Simulated beside real inputs by benchmarks/referee/vision_steps.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import memlint.memory.families.lookup as families
import memlint.memory.layers.elements as elements
import memlint.memory.vision.images as images
import memlint.memory.vision.tower_ends as tower_ends
from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Tower
from memlint.memory.autograd.profile import LayerMode
from memlint.memory.autograd.walk import Segment, TensorBytes
from memlint.memory.families.traits import PatchPath, TowerTraits, VisionTraits
from memlint.memory.layers.activations import layer_profile
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.parameter_roles import extents, roles
from memlint.memory.parameters import MissingValue
from memlint.memory.step import TrainingStep, autograd_owns_grads, segment
from memlint.memory.storage import rounded
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.memory.vision.patches import entry_profile
from memlint.memory.vision.projector import Exit, exit_profile


class PlacedUnit(NamedTuple):
    """A unit and what the engine makes of it."""

    unit: Unit
    state: UnitState


class Parts(NamedTuple):
    """The vision tower's units."""

    tower: Tower
    outside: PlacedUnit
    layers: PlacedUnit
    projector: PlacedUnit


class Imaged(NamedTuple):
    """A step's part before the language model, bytes. `inputs` lives through forward and backward, `outputs` until the
    language model's layers are done."""

    segments: list[Segment]
    inputs: int
    outputs: int


def trains(units: tuple[Unit, ...]) -> bool:
    """Whether a tower or its projector has anything that trains."""
    return any(tower_ends.trains(unit.tensors) for unit in units if unit.name in ("tower", "projector"))


def are_known(architecture: Architecture) -> bool:
    """Whether somebody has read what the model's towers do."""
    only = architecture.towers[0] if len(architecture.towers) == 1 else None
    return only is not None and only.layer_class != "" and families.of(architecture).vision.path is not None


def refuse_unknown(architecture: Architecture, units: tuple[Unit, ...]) -> None:
    """Raise `MissingValue` where a tower trains whose operations nobody has read."""
    if are_known(architecture) or not trains(units):
        return
    kinds = " and ".join(sorted({tower.kind for tower in architecture.towers}))
    reason = f"activations of the {kinds} towers of {architecture.family}, which train, are not modelled"
    reason += families.of(architecture).vision.unbounded
    raise MissingValue("method.freeze_vision_tower", reason)


def imaged(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> Imaged:
    """The vision tower's segments when every token is an image's; where the towers are known."""
    parts = _parts(step.architecture.towers[0], units, state)
    counts, traits = _counts(step, parts.tower), _traits(parts.tower)
    masked = traits.packs_images or traits.pads_images
    kernels = step.kernels._replace(liger=False, mask=step.kernels.mask and masked)
    kernels = kernels._replace(bias=traits.pads_images and kernels.attention == "sdpa")
    ends = tower_ends.ends(parts.outside.unit.tensors)
    early, late = tower_ends.shared_out(parts.outside.state, ends)
    # transformers 5.23 asks for it at every model's input embeddings (modeling_utils.py:2150, the convolution in a
    # tower).
    checkpoint = step.run.checkpointing
    asked = checkpoint.mode not in ("none", "selective")
    asks = asked and not checkpoint.skips_frozen_layers and traits.asks
    profile, width = entry_profile(tower_ends.entry(parts.tower, traits, ends.before, asks), kernels)
    sizes = TensorBytes(
        {**counts, **tower_ends.entry_extents(ends.before, counts["rows"])}, autograd_owns_grads(step.run, early)
    )
    found = [segment(profile, sizes, early)]
    mode = _mode(step, parts, width, asks or tower_ends.trains(ends.before))
    if mode is None:
        parts, mode = parts._replace(layers=_frozen(parts.layers)), LayerMode(width, False)
    found += _layers(step, parts, counts, kernels, mode)
    flows = mode.input_needs_gradient or tower_ends.trains(parts.layers.unit.tensors)
    waiting = rounded(counts["embeds"] * step.width)  # the tokens' embeddings, and in the backward their gradient
    waiting += _chosen(parts.tower, counts, ends)
    found = [part._replace(concurrent_activations=waiting) for part in found]
    embeds = tower_ends.trains(units[0].tensors)
    given = Exit(
        width=width, embeds=step.width, input_requires_grad=flows, asks=asked or embeds, leaf=asked and not embeds
    )
    found.append(_exit(step, parts, counts, kernels, given, ends, late))
    outputs = rounded(counts["hidden"] * width)
    if _vision(step).holds_all_layers and not mode.checkpoint:
        outputs *= parts.tower.layers + 1
    return Imaged(found, _inputs(step, parts.tower, counts, width), outputs)


def _traits(tower: Tower) -> TowerTraits:
    return families.of_layer(tower.layer_class).tower


def _vision(step: TrainingStep) -> VisionTraits:
    return families.of(step.architecture).vision


def _parts(tower: Tower, units: tuple[Unit, ...], state: ModelState) -> Parts:
    placed = [PlacedUnit(*pair) for pair in zip(units, state.units, strict=True)]
    inside = [one for one in placed if one.unit.name == "tower"]
    nothing = PlacedUnit(Unit("tower", ()), UnitState())
    projector = next((one for one in placed if one.unit.name == "projector"), nothing)
    return Parts(tower, inside[0], _plain(inside[1]) if len(inside) > 1 else nothing, projector)


def _plain(placed: PlacedUnit) -> PlacedUnit:
    """Gemma 4 calls the products inside of `q_proj` and the others `linear`, all of them."""
    tensors = tuple(t._replace(name=t.name.replace(".linear.", ".")) for t in placed.unit.tensors)
    return placed._replace(unit=placed.unit._replace(tensors=tensors))


def _counts(step: TrainingStep, tower: Tower) -> dict[str, int]:
    """Elements by extent when all of the language model's tokens are features of patches."""
    vision, hidden = _vision(step), tower.hidden_size
    tokens = step.tokens.sequences * images.tokens_seen(step.run, tower, step.tokens.length)
    patches = images.patches_of(tower, tokens, vision.patches_per_token)
    rows = patches + images.class_tokens(tower, patches)
    found = elements.of_layer(_shape(tower), elements.Tokens(1, rows), hidden)
    found |= {"hidden": rows * hidden, "hidden*4": 4 * rows * hidden, "patches": patches * hidden, "rows": rows}
    found |= {"pixels": patches * images.pixels_per_patch(tower), "pooled": tokens * hidden, "scalar": 1, "rope": 0}
    found["embeds"] = tokens * step.architecture.hidden_size
    found["slots"] = patches // tower.merge_size**2 * hidden
    found["assigned"] = rows * max(1, tower.tokens_per_image)
    found["bias"] = rows * images.patches_of_image(step.run, tower, step.tokens.length)
    found["merged"] = patches if vision.patches_are_tokens else tokens
    return found


def _shape(tower: Tower) -> DecoderLayer:
    names = {weight.name.split(".")[-2] for weight in tower.layer_weights if "." in weight.name}
    attention = TokenMixer(
        heads=tower.heads,
        kv_heads=tower.heads,
        head_dim=tower.hidden_size // max(1, tower.heads),
        qk_norm="full" if "q_norm" in names else "none",
        rotary_fraction=1.0 if _traits(tower).rotary else 0.0,
        fused_qkv="qkv" in names,
    )
    mlp = Mlp(tower.mlp, tower.intermediate_size, tower.activation)
    if _traits(tower).pads_images:
        dim = next(weight.shape[0] for weight in tower.layer_weights if weight.name.endswith("q_norm.weight"))
        attention = attention._replace(head_dim=dim, qk_norm="head", value_norm=True)
        return DecoderLayer(attention, mlp, norm="rms_gemma", norms=4, class_name=tower.layer_class)
    return DecoderLayer(attention, mlp, norm=tower.norm, class_name=tower.layer_class)


def _frozen(placed: PlacedUnit) -> PlacedUnit:
    tensors = tuple(tensor._replace(trainable=False) for tensor in placed.unit.tensors)
    return placed._replace(unit=placed.unit._replace(tensors=tensors))


def _mode(step: TrainingStep, parts: Parts, width: int, flows: bool) -> LayerMode | None:
    """Towers' layers are GradientCheckpointingLayers. None where no gradient reaches the layers: nothing in them
    trains, or they are re-entered and no input asks (torch 2.13 utils/checkpoint.py, CheckpointFunction)."""
    checkpoint = step.run.checkpointing
    recomputed, own = checkpoint.mode not in ("none", "selective"), checkpoint.skips_frozen_layers
    trains = tower_ends.trains(parts.layers.unit.tensors)
    unseen = recomputed and checkpoint.reentrant
    if unseen and _traits(parts.tower).input_by_name:
        return None
    if not flows and (not trains or (unseen and not own)):
        return None
    recomputed = recomputed and (trains or not own)
    return LayerMode(width, flows or recomputed, recomputed, checkpoint.reentrant)


def _layers(
    step: TrainingStep, parts: Parts, counts: dict[str, int], kernels: KernelConfig, mode: LayerMode
) -> Iterator[Segment]:
    """Runs of layers whose attention sees as much; the first layer's input may want no gradient."""
    (unit, placed), tower = parts.layers, parts.tower
    profiled, shape = roles(unit.tensors, step.run.method.dropout > 0), _shape(tower)
    own = {**counts, **extents(unit.tensors, counts["rows"])}
    for whole, group in groupby(range(tower.layers), lambda index: not tower.window or index in tower.full_layers):
        repeat = len(list(group))
        own["scores"] = _scores(step, parts, counts, _seen(step, tower, counts, whole), mode)
        sizes = TensorBytes(dict(own), autograd_owns_grads(step.run, placed))
        if not mode.input_needs_gradient and tower_ends.trains(unit.tensors):
            yield segment(layer_profile(shape, profiled, kernels, mode), sizes, placed)
            mode, repeat = mode._replace(input_needs_gradient=True), repeat - 1
        if repeat:
            yield segment(layer_profile(shape, profiled, kernels, mode), sizes, placed, repeat)


def _scores(step: TrainingStep, parts: Parts, counts: dict[str, int], seen: int, mode: LayerMode) -> int:
    """Scores that are there at once: those of one image where images attend in turn and nothing keeps them."""
    kept = mode.input_needs_gradient or tower_ends.trains(parts.layers.unit.tensors)
    in_turn = families.of_layer(parts.tower.layer_class).attention.image_by_image
    rows = seen if in_turn and not kept else counts["rows"]
    return parts.tower.heads * rows * seen


def _seen(step: TrainingStep, tower: Tower, counts: dict[str, int], whole: bool) -> int:
    """Patches that one patch attends to: a window's; the whole batch's where it is one sequence; an image's."""
    if _traits(tower).packs_images:
        return counts["rows"]
    length = images.tokens_seen(step.run, tower, step.tokens.length)
    most = images.patches_of_image(step.run, tower, length) if whole else tower.window
    return min(most, counts["rows"])


def _exit(
    step: TrainingStep,
    parts: Parts,
    counts: dict[str, int],
    kernels: KernelConfig,
    given: Exit,
    ends: tower_ends.Ends,
    late: UnitState,
) -> Segment:
    """`given`: widths, and what asks for gradients; `late`: gradients of what stands behind the layers."""
    unit, placed = parts.projector
    vision = _vision(step)
    path = vision.path or PatchPath()  # known: `are_known`
    if vision.patches_are_tokens and counts["patches"] == counts["hidden"]:  # no class token to cut off
        path = path._replace(shuffles=0)
    shape = tower_ends.filled(given, _traits(parts.tower), path, ends.behind, unit.tensors, step.run.method.dropout > 0)
    sizes = {**counts, **tower_ends.exit_extents(ends.behind, unit.tensors, counts["merged"])}
    placed = placed._replace(gradient_kept=placed.gradient_kept + late.gradient_kept)
    return segment(exit_profile(shape, kernels), TensorBytes(sizes, autograd_owns_grads(step.run, placed)), placed)


def _chosen(tower: Tower, counts: dict[str, int], ends: tower_ends.Ends) -> int:
    """Pixels of the real images and their int64 mask, which Idefics 3 holds while its tower runs; a convolution that
    trains keeps the pixels in any case."""
    if not _traits(tower).picks_images:
        return 0
    pixels = 0 if tower_ends.trains(ends.before) else rounded(counts["pixels"] * images.PIXEL)
    return pixels + _mask(counts)


def _mask(counts: dict[str, int]) -> int:
    """One int64 for each place of three colours."""
    return rounded(counts["pixels"] // 3 * 8)


def _inputs(step: TrainingStep, tower: Tower, counts: dict[str, int], width: int) -> int:
    """Pixels, the rotary cosine and sine in fp32, and the mask between Pixtral's images, which scaled dot-product
    attention keeps as a bias; of each token its place in four ways, its type and whether it is attended to, in int64
    (transformers 5.23 models/qwen2_vl/modeling_qwen2_vl.py:779, models/gemma3/processing_gemma3.py)."""
    traits = _traits(tower)
    found = rounded(counts["pixels"] * images.PIXEL) + 6 * rounded(8 * step.tokens.count)
    if traits.places_by_sequence:
        text = step.architecture.layer_types[0].attention.head_dim * step.width
        found += 2 * rounded((step.tokens.count - step.tokens.length) * text)
    if traits.rotary == "computed":
        found += 2 * rounded(counts["rows"] * tower.hidden_size // max(1, tower.heads) * 4)
    if traits.picks_images:
        found += _mask(counts)
    if traits.pads_images:  # each patch's row and column, and the mask
        flash = step.kernels.attention.startswith("flash")
        found += rounded(16 * counts["rows"]) + (0 if flash else rounded(counts["bias"] * width))
    if traits.packs_images and not step.kernels.attention.startswith("flash"):
        found += rounded(counts["rows"] * counts["rows"] * width)
    return found
