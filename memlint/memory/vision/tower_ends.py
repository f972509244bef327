"""What stands before and behind a vision tower's layers, from the tensors that a run holds there."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.architectures.model import Tower
from memlint.memory.autograd.tape import Weight
from memlint.memory.parameter_roles import Linear, extents, keys, roles
from memlint.memory.parameters import Missing
from memlint.memory.storage import BYTES
from memlint.memory.values import Tensor, UnitState
from memlint.memory.vision.patches import Entry
from memlint.memory.vision.projector import Exit, Linears, Path

_LLAVA = Path(shuffles=1)
_ANY_RESOLUTION = _LLAVA._replace(joined=4)  # tiles side by side, ends of lines, the whole image first, all images
_QWEN = Path("layer")
# By family; nobody has read the others' way from patches to tokens (transformers 5.23 models/<family>/).
PATHS: dict[str, Path] = {
    "llava": _LLAVA,
    **dict.fromkeys(("llava_next", "llava_next_video", "llava_onevision"), _ANY_RESOLUTION),
    "internvl": Path("layer", norm_first=False, shuffles=2, joined=0),
    "mistral3": Path("rms", shuffles=2, straight=1),
    **dict.fromkeys(("gemma3", "shieldgemma2"), Path("rms_gemma", norm_first=False, pooled=True, joined=0)),
    "paligemma": Path(joined=0),
    **dict.fromkeys(("idefics3", "smolvlm"), Path(shuffles=2)),
    "gemma4": Path("rms", placed=True),
    "llama4": Path(shuffles=2, joined=0),
    "glm4v": Path("layer", gated=True, last_kind="rms"),
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": Path("rms", reordered=True),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _QWEN),
}


# What merges patches before the projector: a convolution (GLM-4V), two products (Llama 4).
_MERGING = ("downsample", "vision_adapter")
# Beside it last norms, pooling heads and mergers of deep features.
_BEHIND = ("post_layernorm", "layernorm.", "layernorm_post", "head.", "deepstack", *_MERGING)


class Ends(NamedTuple):
    """The tensors outside of the layers, by where they stand."""

    before: tuple[Tensor, ...]
    behind: tuple[Tensor, ...]


def ends(outside: tuple[Tensor, ...]) -> Ends:
    """By what the tensors are called."""
    behind = tuple(t for t in outside if t.name.startswith(_BEHIND))
    return Ends(tuple(t for t in outside if t not in behind), behind)


def trains(tensors: tuple[Tensor, ...]) -> bool:
    """Whether any of them does."""
    return any(tensor.trainable for tensor in tensors)


def shared_out(placed: UnitState, found: Ends) -> tuple[UnitState, UnitState]:
    """The gradients of both ends: those behind the layers come first in the backward."""
    sizes = [sum(tensor.numel for tensor in group if tensor.trainable) for group in found]
    early = placed.gradient_kept * sizes[0] // max(1, sum(sizes))
    return placed._replace(gradient_kept=early), UnitState(gradient_kept=placed.gradient_kept - early)


_PRODUCTS = ("conv", "linear", "adapter")


def entry(tower: Tower, before: tuple[Tensor, ...], asks: bool) -> Entry:
    """Raises `Missing` where a tower names no convolution over patches."""
    linears = roles(_as_products(tuple(t for t in before if t.kind in _PRODUCTS)), False).linears
    if not linears:
        raise Missing("method.freeze_vision_tower", "this tower names no convolution over patches")
    token = next((t for t in before if t.kind == "embedding" and not t.name.endswith("mask_token")), None)
    normed = _weight(before, "norm")
    return Entry(
        linears[0][1],
        Weight("w:embedding", BYTES[token.dtype], token.trainable) if token is not None else None,
        _weight(before, "position"),
        interpolated=tower.layer_class.startswith("Qwen3VL"),
        sampled=is_glm(tower),
        norm_kind=tower.norm if normed is not None else "",
        norm=normed,
        norm_first=is_glm(tower),
        gathered=is_packed(tower),
        reordered=tower.window > 0,
        asks=asks,
        asks_late=is_chosen(tower),
        looked_up=is_chosen(tower),
        chosen=is_chosen(tower),
        by_axis=is_padded(tower),
        unfolded=tower.layer_class.startswith("Llama4"),
    )


def entry_extents(before: tuple[Tensor, ...], rows: int) -> dict[str, int]:
    """Elements of what `entry` names."""
    return extents(_as_products(before), rows)


def is_packed(tower: Tower) -> bool:
    """Pixtral joins all images of a batch to one sequence, with a mask between them (transformers 5.23
    models/pixtral/modeling_pixtral.py:309, generate_block_attention_mask)."""
    return tower.layer_class.startswith("Pixtral")


def is_padded(tower: Tower) -> bool:
    """Gemma 4 pads each image to as many patches as the largest has, and masks them (transformers 5.23
    models/gemma4/image_processing_gemma4.py, pad_along_first_dim)."""
    return tower.layer_class.startswith("Gemma4")


def is_chosen(tower: Tower) -> bool:
    """Idefics 3 and SmolVLM take the real images out of a batch padded with empty ones, with a mask of their pixels
    (transformers 5.23 models/idefics3/modeling_idefics3.py:578-603)."""
    return tower.layer_class.startswith("Idefics3")


def is_glm(tower: Tower) -> bool:
    """GLM-4V norms its patches, samples their positions in fp32 and merges them by a convolution behind its layers."""
    return tower.layer_class.startswith("Glm4v")


def filled(
    given: Exit,
    tower: Tower,
    path: Path,
    behind: tuple[Tensor, ...],
    projector: tuple[Tensor, ...],
    dropout: bool,
) -> Exit:
    """`given` with the family's path and the tensors on it."""
    parts = roles(_renamed_first(_as_products(projector)), dropout)
    merging = roles(_as_products(_merging(behind)), dropout).linears
    uses_last = not tower.layer_class.startswith("CLIP")  # CLIP norms its class token alone
    last = _last_norm(behind)
    return given._replace(
        path=path,
        linears=merging + parts.linears,
        norm=parts.norm,
        post_norm=last is not None and uses_last,
        last_norm=Weight("w:last_norm", BYTES[last.dtype], last.trainable) if last is not None else None,
        deep=tuple(_deep_merger(name, group, dropout) for name, group in _deep(behind).items()),
    )


def exit_extents(behind: tuple[Tensor, ...], projector: tuple[Tensor, ...], merged: int) -> dict[str, int]:
    """Elements of what `filled` names; `merged` rows go through the projector."""
    last = _last_norm(behind)
    found = {"w:last_norm": last.numel if last is not None else 0}
    found |= _product_extents(_renamed_first(_as_products(projector)), merged)
    found |= _product_extents(_as_products(_merging(behind)), merged)
    for name, group in _deep(behind).items():
        for extent, count in _product_extents(group, merged).items():
            found[_renamed(extent, name)] = count
    return found


def _last_norm(behind: tuple[Tensor, ...]) -> Tensor | None:
    return next((t for t in behind if t.kind == "norm" and t.name.startswith(("post_layernorm", "layernorm"))), None)


def _product_extents(tensors: tuple[Tensor, ...], rows: int) -> dict[str, int]:
    named = zip(keys(tensors), tensors, strict=True)
    outputs = {f"out:{key}": rows * _outputs(t) for key, t in named if t.kind == "linear"}
    return {**extents(tensors, rows), **outputs}


def _outputs(tensor: Tensor) -> int:
    """Gemma 3 stores its projection the other way round (modeling_gemma3.py:654)."""
    return tensor.shape[1 if tensor.name.endswith(_BARE) else 0]


def _merging(behind: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor for tensor in behind if tensor.name.startswith(_MERGING))


def _renamed_first(projector: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """GLM-4V's merger has a `proj` beside gate, up and down, which a layer's names do not tell from `down_proj`."""
    return tuple(t._replace(name="first" + t.name[4:]) if t.name.startswith("proj.") else t for t in projector)


_BARE = "mm_input_projection_weight"


def _as_products(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Convolutions over patches and bare matrices are products like linears."""
    return tuple(t._replace(kind="linear") if t.kind == "conv" or t.name.endswith(_BARE) else t for t in tensors)


def _weight(tensors: tuple[Tensor, ...], kind: str) -> Weight | None:
    found = next((t for t in tensors if t.kind == kind), None)
    return Weight("w:" + kind, BYTES[found.dtype], found.trainable) if found is not None else None


def _deep(behind: tuple[Tensor, ...]) -> dict[str, tuple[Tensor, ...]]:
    """The mergers of Qwen3-VL's deep features, each under its number."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in behind:
        if tensor.name.startswith("deepstack"):
            groups.setdefault("deep" + tensor.name.split(".")[1], []).append(tensor)
    return {name: tuple(group) for name, group in groups.items()}


def _deep_merger(name: str, tensors: tuple[Tensor, ...], dropout: bool) -> tuple[Linears, Weight | None]:
    """Mergers are alike but not the same: each has extents of its own."""
    parts = roles(tensors, dropout)
    linears = tuple((f"{name}.{key}", _own(linear, name)) for key, linear in parts.linears)
    return linears, _own_weight(parts.norm, name)


def _own(linear: Linear, name: str) -> Linear:
    return linear._replace(
        weight=linear.weight._replace(extent=_renamed(linear.weight.extent, name)),
        rank=_renamed(linear.rank, name),
        bias=_own_weight(linear.bias, name),
        down=_own_weight(linear.down, name),
        up=_own_weight(linear.up, name),
        magnitude=_own_weight(linear.magnitude, name),
        rotation=_own_weight(linear.rotation, name),
    )


def _own_weight(weight: Weight | None, name: str) -> Weight | None:
    return weight._replace(extent=_renamed(weight.extent, name)) if weight is not None else None


def _renamed(extent: str, name: str) -> str:
    kind, colon, rest = extent.partition(":")
    return f"{kind}:{name}.{rest}" if colon else extent
