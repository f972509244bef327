"""A vision tower's operations before and after its layers, from the tensors that a run holds there."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.architectures.model import Tower
from memlint.memory.autograd.tape import Parameter
from memlint.memory.families.traits import PatchPath, TowerTraits
from memlint.memory.state.parameter_roles import Linear, extents, part_names, roles
from memlint.memory.state.parameters import MissingValue
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import Tensor, UnitState
from memlint.memory.vision.patches import TowerEntry
from memlint.memory.vision.projector import Linears, TowerExit

# What merges patches before the projector: a convolution (GLM-4V), two products (Llama 4).
_MERGING = ("downsample", "vision_adapter")
# Beside it last norms, pooling heads and mergers of deep features.
_AFTER_LAYERS = ("post_layernorm", "layernorm.", "layernorm_post", "head.", "deepstack", "merger_list", *_MERGING)


class TowerEnds(NamedTuple):
    """A tower's tensors outside of its layers, by where they are used."""

    before_layers: tuple[Tensor, ...]
    after_layers: tuple[Tensor, ...]


def ends(outside: tuple[Tensor, ...]) -> TowerEnds:
    """The tensors sorted by their names."""
    after_layers = tuple(t for t in outside if t.name.startswith(_AFTER_LAYERS))
    return TowerEnds(tuple(t for t in outside if t not in after_layers), after_layers)


def trains(tensors: tuple[Tensor, ...]) -> bool:
    """Whether any of these tensors trains."""
    return any(tensor.trainable for tensor in tensors)


def split_gradients(placed: UnitState, found: TowerEnds) -> tuple[UnitState, UnitState]:
    """The gradients before and after the layers: two segments, of which the latter comes first in the backward."""
    sizes = [sum(tensor.numel for tensor in group if tensor.trainable) for group in found]
    entry_kept = rounded(placed.gradient_kept * sizes[0] // max(1, sum(sizes)))
    return placed._replace(gradient_kept=entry_kept), UnitState(gradient_kept=placed.gradient_kept - entry_kept)


_PRODUCTS = ("conv", "linear", "adapter")


def entry(
    tower: Tower, traits: TowerTraits, before_layers: tuple[Tensor, ...], output_requires_grad: bool
) -> TowerEntry:
    """The operations before the layers. Raises `MissingValue` where a tower names no convolution over patches."""
    linears = roles(_as_products(tuple(t for t in before_layers if t.kind in _PRODUCTS)), False).linears
    if not linears:
        raise MissingValue("method.freeze_vision_tower", "this tower names no convolution over patches")
    token = next((t for t in before_layers if t.kind == "embedding" and not t.name.endswith("mask_token")), None)
    normed = _weight(before_layers, "norm")
    return TowerEntry(
        linears[0][1],
        Parameter("w:embedding", BYTES[token.dtype], token.trainable) if token is not None else None,
        _weight(before_layers, "position"),
        interpolated=traits.interpolates_positions,
        sampled=traits.samples_positions,
        norm_kind=tower.norm if normed is not None else "",
        norm=normed,
        norm_first=traits.norms_first,
        joined=traits.packs_images,
        reordered=tower.window > 0,
        output_requires_grad=output_requires_grad,
        after_positions=traits.drops_empty_images,
        by_patch=traits.drops_empty_images,
        drops_padding=traits.drops_empty_images,
        by_axis=traits.pads_images,
        unfolded=traits.unfolds_pixels,
    )


def entry_extents(before_layers: tuple[Tensor, ...], rows: int) -> dict[str, int]:
    """Number of elements by extent, for the tensors of `entry`."""
    return extents(_as_products(before_layers), rows)


def complete_exit(
    exit_: TowerExit,
    traits: TowerTraits,
    path: PatchPath,
    after_layers: tuple[Tensor, ...],
    projector: tuple[Tensor, ...],
    dropout: bool,
) -> TowerExit:
    """`exit_` with the projector and mergers of the model family and their tensors."""
    parts = roles(_renamed_first(_as_products(projector)), dropout)
    merging = roles(_as_products(_patch_mergers(after_layers)), dropout).linears
    last = _last_norm(after_layers)
    return exit_._replace(
        path=path,
        linears=merging + parts.linears,
        norm=parts.norm,
        post_norm=last is not None and traits.norms_last,
        last_norm=Parameter("w:last_norm", BYTES[last.dtype], last.trainable) if last is not None else None,
        deep=tuple(_deep_merger(name, group, dropout) for name, group in _deep_mergers(after_layers).items()),
    )


def exit_extents(after_layers: tuple[Tensor, ...], projector: tuple[Tensor, ...], merged: int) -> dict[str, int]:
    """Number of elements by extent, for the tensors of `complete_exit`. `merged`: rows that the projector reads."""
    last = _last_norm(after_layers)
    found = {"w:last_norm": last.numel if last is not None else 0}
    found |= _product_extents(_renamed_first(_as_products(projector)), merged)
    found |= _product_extents(_as_products(_patch_mergers(after_layers)), merged)
    for name, group in _deep_mergers(after_layers).items():
        for extent, count in _product_extents(group, merged).items():
            found[_renamed(extent, name)] = count
    return found


def _last_norm(after_layers: tuple[Tensor, ...]) -> Tensor | None:
    return next(
        (t for t in after_layers if t.kind == "norm" and t.name.startswith(("post_layernorm", "layernorm"))), None
    )


def _product_extents(tensors: tuple[Tensor, ...], rows: int) -> dict[str, int]:
    named = zip(part_names(tensors), tensors, strict=True)
    outputs = {f"out:{key}": rows * _outputs(t) for key, t in named if t.kind == "linear"}
    return {**extents(tensors, rows), **outputs}


def _outputs(tensor: Tensor) -> int:
    """Gemma 3 stores its projection the other way round (modeling_gemma3.py:654)."""
    return tensor.shape[1 if tensor.name.endswith(_BARE) else 0]


def _patch_mergers(after_layers: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in after_layers if tensor.name.startswith(_MERGING))


def _renamed_first(projector: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """GLM-4V's merger has a `proj` beside gate, up and down, which a layer's names do not tell from `down_proj`."""
    return tuple(t._replace(name="first" + t.name[4:]) if t.name.startswith("proj.") else t for t in projector)


_BARE = "mm_input_projection_weight"


def _as_products(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Convolutions over patches and bare matrices are products like linears."""
    return tuple(t._replace(kind="linear") if t.kind == "conv" or t.name.endswith(_BARE) else t for t in tensors)


def _weight(tensors: tuple[Tensor, ...], kind: str) -> Parameter | None:
    found = next((t for t in tensors if t.kind == kind), None)
    return Parameter("w:" + kind, BYTES[found.dtype], found.trainable) if found is not None else None


def _deep_mergers(after_layers: tuple[Tensor, ...]) -> dict[str, tuple[Tensor, ...]]:
    """The mergers of Qwen3-VL's deep features, each under its number."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in after_layers:
        if tensor.name.startswith("deepstack"):
            groups.setdefault("deep" + tensor.name.split(".")[1], []).append(tensor)
    return {name: tuple(group) for name, group in groups.items()}


def _deep_merger(name: str, tensors: tuple[Tensor, ...], dropout: bool) -> tuple[Linears, Parameter | None]:
    """Mergers are alike but not the same: each has extents of its own."""
    parts = roles(tensors, dropout)
    linears = tuple((f"{name}.{key}", _with_own_extents(linear, name)) for key, linear in parts.linears)
    return linears, _with_own_extent(parts.norm, name)


def _with_own_extents(linear: Linear, name: str) -> Linear:
    return linear._replace(
        weight=linear.weight._replace(extent=_renamed(linear.weight.extent, name)),
        rank=_renamed(linear.rank, name),
        bias=_with_own_extent(linear.bias, name),
        down=_with_own_extent(linear.down, name),
        up=_with_own_extent(linear.up, name),
        magnitude=_with_own_extent(linear.magnitude, name),
        rotation=_with_own_extent(linear.rotation, name),
    )


def _with_own_extent(weight: Parameter | None, name: str) -> Parameter | None:
    return weight._replace(extent=_renamed(weight.extent, name)) if weight is not None else None


def _renamed(extent: str, name: str) -> str:
    kind, colon, rest = extent.partition(":")
    return f"{kind}:{name}.{rest}" if colon else extent
