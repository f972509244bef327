"""The segments of a vision tower that runs with gradients, where every token of the sequence belongs to an image.

What a tower's layers save follows from their operations, as for decoder layers. How many patches they encode follows
from the length of the sequence, which bounds the number of images. Simulated beside real inputs by
benchmarks/referee/vision_steps.py."""

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
from memlint.memory.autograd.walk import Segment, tensor_bytes
from memlint.memory.families.traits import PatchPath, TowerTraits, VisionTraits
from memlint.memory.layers.kernel_config import KernelConfig
from memlint.memory.layers.profiles import layer_profile
from memlint.memory.segments.step import TrainingStep, autograd_owns_grads, segment
from memlint.memory.state.parameter_roles import extents, roles
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.memory.vision.patches import entry_profile
from memlint.memory.vision.projector import TowerExit, exit_profile
from memlint.run import Checkpointing


class PlacedUnit(NamedTuple):
    """A unit with the model state of its parameters."""

    unit: Unit
    state: UnitState


class TowerParts(NamedTuple):
    """The units of a vision tower. `outside_layers`: what is before and after its layers."""

    tower: Tower
    outside_layers: PlacedUnit
    layers: PlacedUnit
    projector: PlacedUnit


class ImagePart(NamedTuple):
    """What a step runs before the language model. `inputs`: bytes that live through forward and backward; `outputs`:
    bytes that live until the last layer of the language model."""

    segments: list[Segment]
    inputs: int
    outputs: int


def trains(units: tuple[Unit, ...]) -> bool:
    """Whether any parameter of a tower or a projector trains."""
    return any(tower_ends.trains(unit.tensors) for unit in units if unit.name in ("tower", "projector"))


def are_modelled(architecture: Architecture) -> bool:
    """Whether the operations of the model's vision tower are modelled. An encoder of sounds beside it counts as silent:
    a token of sound stands for less work than one of an image."""
    kinds = [tower.kind for tower in architecture.towers]
    if kinds[:1] != ["vision"] or kinds.count("vision") > 1:
        return False
    return architecture.towers[0].layer_class != "" and families.of(architecture).vision.path is not None


def refuse_unmodelled(architecture: Architecture, units: tuple[Unit, ...]) -> None:
    """Raises `MissingValue` where a tower trains whose operations are not modelled."""
    unmodelled = _beside_vision(architecture, units) if are_modelled(architecture) else units
    if not trains(unmodelled):
        return
    kinds = " and ".join(sorted({tower.kind for tower in architecture.towers}))
    reason = f"activations of the {kinds} towers of {architecture.family}, which train, are not modelled"
    reason += families.of(architecture).vision.unbounded
    raise MissingValue("method.freeze_vision_tower", reason)


def _beside_vision(architecture: Architecture, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units of towers and projectors after the first tower's."""
    found = tuple(unit for unit in units if unit.name in ("tower", "projector"))
    first = architecture.towers[0]
    own = sum(map(bool, (first.weights, first.layers and first.layer_weights, first.projector_weights)))
    return found[own:]


def _checkpoints_layers(checkpointing: Checkpointing) -> bool:
    return checkpointing.mode not in ("none", "selective")


def _checkpoints_tower(step: TrainingStep) -> bool:
    """Whether the tower's layers are checkpointed, and the output of its input embedding requires a gradient
    (ms-swift 4.6 trainers/mixin.py, _prepare_gradient_checkpointing switches both off and on for a tower alone)."""
    checkpointing = step.run.checkpointing
    return _checkpoints_layers(checkpointing) if checkpointing.vision_tower is None else checkpointing.vision_tower


def image_segments(step: TrainingStep, units: tuple[Unit, ...], state: ModelState) -> ImagePart:
    """The segments of the vision tower when every token belongs to an image. The tower must be modelled."""
    parts = _parts(step.architecture.towers[0], units, state)
    counts, traits = _counts(step, parts.tower), _traits(parts.tower)
    masked = traits.packs_images or traits.pads_images
    kernels = step.kernels._replace(liger=False, mask=step.kernels.mask and masked)
    kernels = kernels._replace(bias=traits.pads_images and kernels.attention == "sdpa")
    ends = tower_ends.ends(parts.outside_layers.unit.tensors)
    entry_state, exit_state = tower_ends.split_gradients(parts.outside_layers.state, ends)
    # transformers 5.23 makes the output of every model's input embeddings require a gradient (modeling_utils.py:2150);
    # in a tower that is the convolution.
    hooks_inputs = _checkpoints_layers(step.run.checkpointing)
    skips_frozen = step.run.checkpointing.skips_frozen_layers
    output_requires_grad = _checkpoints_tower(step) and not skips_frozen and traits.hooks_input_embedding
    profile, width = entry_profile(
        tower_ends.entry(parts.tower, traits, ends.before_layers, output_requires_grad), kernels
    )
    sizes = tensor_bytes(
        {**counts, **tower_ends.entry_extents(ends.before_layers, counts["rows"])},
        autograd_owns_grads(step.run, entry_state),
    )
    found = [segment(profile, sizes, entry_state)]
    mode = _layer_mode(step, parts, width, output_requires_grad or tower_ends.trains(ends.before_layers))
    if mode is None:
        parts, mode = parts._replace(layers=_frozen(parts.layers)), LayerMode(width, False)
    found += _layers(step, parts, counts, kernels, mode)
    input_requires_grad = mode.input_needs_gradient or tower_ends.trains(parts.layers.unit.tensors)
    concurrent = rounded(counts["embeds"] * step.width)  # the tokens' embeddings, and in the backward their gradient
    concurrent += _padding_mask_bytes(parts.tower, counts, ends)
    found = [part._replace(concurrent_activations=concurrent) for part in found]
    embeds = tower_ends.trains(units[0].tensors)
    exit_ = TowerExit(
        width=width,
        embeds=step.width,
        input_requires_grad=input_requires_grad,
        embeds_require_grad=hooks_inputs or embeds,
        embeds_are_leaf=hooks_inputs and not embeds,
    )
    found.append(_exit(step, parts, counts, kernels, exit_, ends, exit_state))
    outputs = rounded(counts["hidden"] * width)
    if _vision(step).holds_all_layers and not mode.checkpoint:
        outputs *= parts.tower.layers + 1
    return ImagePart(found, _inputs(step, parts.tower, counts, width), outputs)


def _traits(tower: Tower) -> TowerTraits:
    return families.of_layer(tower.layer_class).tower


def _vision(step: TrainingStep) -> VisionTraits:
    return families.of(step.architecture).vision


def _parts(tower: Tower, units: tuple[Unit, ...], state: ModelState) -> TowerParts:
    placed = [PlacedUnit(unit, _at_once(own)) for unit, own in zip(units, state.units, strict=True)]
    tower_units = [placed_unit for placed_unit in placed if placed_unit.unit.name == "tower"]
    empty = PlacedUnit(Unit("tower", ()), UnitState())
    projector = next((placed_unit for placed_unit in placed if placed_unit.unit.name == "projector"), empty)
    return TowerParts(
        tower, tower_units[0], _without_linear_wrapper(tower_units[1]) if len(tower_units) > 1 else empty, projector
    )


def _at_once(state: UnitState) -> UnitState:
    """A unit's state without moments of its own: a tower's segments are not its units."""
    if not state.moments:
        return state
    live, end = (max(sizes) for sizes in zip(*((one.live, one.end) for one in state.moments), strict=True))
    return state._replace(gradient_live=live, gradient_end=end, moments=())


def _without_linear_wrapper(placed: PlacedUnit) -> PlacedUnit:
    """The unit without the `linear` that Gemma 4 puts inside of `q_proj` and the other projections."""
    tensors = tuple(t._replace(name=t.name.replace(".linear.", ".")) for t in placed.unit.tensors)
    return placed._replace(unit=placed.unit._replace(tensors=tensors))


def _counts(step: TrainingStep, tower: Tower) -> dict[str, int]:
    """Number of elements by extent when all tokens of the language model are features of patches."""
    vision, hidden = _vision(step), tower.hidden_size
    tokens = step.tokens.sequences * images.encoded_tokens(step.run, tower, step.tokens.length)
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


def _layer_mode(step: TrainingStep, parts: TowerParts, width: int, input_requires_grad: bool) -> LayerMode | None:
    """Towers' layers are GradientCheckpointingLayers. None where no gradient reaches the layers: nothing in them
    trains, or checkpointing is reentrant and no input requires a gradient (torch 2.13 utils/checkpoint.py,
    CheckpointFunction)."""
    checkpoint = step.run.checkpointing
    recomputed, skips_frozen = _checkpoints_tower(step), checkpoint.skips_frozen_layers
    trains = tower_ends.trains(parts.layers.unit.tensors)
    needs_input_gradient = recomputed and checkpoint.reentrant
    if needs_input_gradient and _traits(parts.tower).input_by_name:
        return None
    if not input_requires_grad and (not trains or (needs_input_gradient and not skips_frozen)):
        return None
    recomputed = recomputed and (trains or not skips_frozen)
    return LayerMode(width, input_requires_grad or recomputed, recomputed, checkpoint.reentrant)


def _layers(
    step: TrainingStep, parts: TowerParts, counts: dict[str, int], kernels: KernelConfig, mode: LayerMode
) -> Iterator[Segment]:
    """The segments of the tower's layers: consecutive layers whose attention spans as many patches are one segment. The
    input of the first layer may need no gradient."""
    (unit, placed), tower = parts.layers, parts.tower
    profiled, shape = roles(unit.tensors, step.run.method.dropout > 0), _shape(tower)
    layer_counts = {**counts, **extents(unit.tensors, counts["rows"])}
    for is_full, group in groupby(range(tower.layers), lambda index: not tower.window or index in tower.full_layers):
        repeat = len(list(group))
        layer_counts["scores"] = _scores(step, parts, counts, _patches_attended(step, tower, counts, is_full), mode)
        sizes = tensor_bytes(layer_counts, autograd_owns_grads(step.run, placed))
        if not mode.input_needs_gradient and tower_ends.trains(unit.tensors):
            yield segment(layer_profile(shape, profiled, kernels, mode), sizes, placed)
            mode, repeat = mode._replace(input_needs_gradient=True), repeat - 1
        if repeat:
            yield segment(layer_profile(shape, profiled, kernels, mode), sizes, placed, repeat)


def _scores(step: TrainingStep, parts: TowerParts, counts: dict[str, int], attended: int, mode: LayerMode) -> int:
    """Attention scores alive at once: of one image, where images are computed in turn and nothing saves them."""
    saved = mode.input_needs_gradient or tower_ends.trains(parts.layers.unit.tensors)
    in_turn = families.of_layer(parts.tower.layer_class).attention.image_by_image
    rows = attended if in_turn and not saved else counts["rows"]
    return parts.tower.heads * rows * attended


def _patches_attended(step: TrainingStep, tower: Tower, counts: dict[str, int], whole: bool) -> int:
    """Patches that one patch attends to: a window's; the whole batch's where it is one sequence; an image's."""
    if _traits(tower).packs_images:
        return counts["rows"]
    length = images.encoded_tokens(step.run, tower, step.tokens.length)
    most = images.patches_of_image(step.run, tower, length) if whole else tower.window
    return min(most, counts["rows"])


def _exit(
    step: TrainingStep,
    parts: TowerParts,
    counts: dict[str, int],
    kernels: KernelConfig,
    exit_: TowerExit,
    ends: tower_ends.TowerEnds,
    exit_state: UnitState,
) -> Segment:
    """The segment after the tower's layers. `exit_state`: gradients of parameters between layers and projector."""
    unit, placed = parts.projector
    vision = _vision(step)
    path = vision.path or PatchPath()  # known: `are_modelled`
    if vision.patches_are_tokens and counts["patches"] == counts["hidden"]:  # no class token to cut off
        path = path._replace(shuffles=0)
    shape = tower_ends.complete_exit(
        exit_, _traits(parts.tower), path, ends.after_layers, unit.tensors, step.run.method.dropout > 0
    )
    sizes = {**counts, **tower_ends.exit_extents(ends.after_layers, unit.tensors, counts["merged"])}
    placed = placed._replace(gradient_kept=placed.gradient_kept + exit_state.gradient_kept)
    return segment(exit_profile(shape, kernels), tensor_bytes(sizes, autograd_owns_grads(step.run, placed)), placed)


def _padding_mask_bytes(tower: Tower, counts: dict[str, int], ends: tower_ends.TowerEnds) -> int:
    """Bytes of the unpadded pixels, in the dtype of the weights, and their int64 mask, which Idefics 3 holds while its
    tower runs (transformers 5.23 models/idefics3/modeling_idefics3.py:577). A convolution that trains saves the pixels
    in any case."""
    if not _traits(tower).drops_empty_images:
        return 0
    width = max((BYTES[tensor.dtype] for tensor in ends.before_layers), default=images.PIXEL)
    pixels = 0 if tower_ends.trains(ends.before_layers) else rounded(counts["pixels"] * width)
    return pixels + _mask_bytes(counts)


def _mask_bytes(counts: dict[str, int]) -> int:
    """Bytes of a mask with one int64 for each pixel of three colours."""
    return rounded(counts["pixels"] // 3 * 8)


def _inputs(step: TrainingStep, tower: Tower, counts: dict[str, int], width: int) -> int:
    """Bytes of the step's image inputs.

    These are pixels, the rotary cosine and sine in fp32, and the mask between Pixtral's images, which scaled
    dot-product attention keeps as a bias; and in int64 for each token four position ids, its type and the attention
    mask (transformers 5.23 models/qwen2_vl/modeling_qwen2_vl.py:779, models/gemma3/processing_gemma3.py)."""
    traits = _traits(tower)
    found = rounded(counts["pixels"] * images.PIXEL) + 6 * rounded(8 * step.tokens.count)
    if traits.positions_differ_by_sequence:
        text = step.architecture.layer_types[0].attention.head_dim * step.width
        found += 2 * rounded((step.tokens.count - step.tokens.length) * text)
    if traits.rotary == "computed":
        found += 2 * rounded(counts["rows"] * tower.hidden_size // max(1, tower.heads) * 4)
    if traits.drops_empty_images:
        found += _mask_bytes(counts)
    if traits.pads_images:  # each patch's row and column, and the mask
        flash = step.kernels.attention.startswith("flash")
        found += rounded(16 * counts["rows"]) + (0 if flash else rounded(counts["bias"] * width))
    if traits.packs_images and not step.kernels.attention.startswith("flash"):
        found += rounded(counts["rows"] * counts["rows"] * width)
    return found
