"""`device_map: auto`: distributes whole layers of one model over the cards of a machine, for inference.

accelerate 1.15 utils/modeling.py (get_balanced_memory, infer_auto_device_map), which transformers 5.23 has as well
(integrations/accelerate.py): each card but the last takes modules in their order up to an equal share and 1.25 layers
more; the first leaves room for the largest module; the last takes what is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.values import Unit


def spread(units: tuple[Unit, ...], cards: int) -> tuple[tuple[Unit, ...], ...]:
    """The units of each card, in order. Each layer is a unit of its own; together they are the model."""
    modules = [one for unit in units for one in _single(unit)]
    if cards < 2 or not modules:
        return (tuple(modules),)
    sizes = [weight_bytes(module) for module in modules]
    layers = [size for size, module in zip(sizes, modules, strict=True) if module.name == "layer"]
    share = sum(sizes) // cards + int(1.25 * max(layers, default=0))
    found: list[list[Unit]] = [[] for _ in range(cards)]
    card = used = 0
    for position, (module, size) in enumerate(zip(modules, sizes, strict=True)):
        while card < cards - 1 and used + size > share - (0 if card else max(sizes[position:])):
            card, used = card + 1, 0
        found[card].append(module)
        used += size
    return tuple(map(tuple, found))


def _single(unit: Unit) -> Iterator[Unit]:
    if not unit.tensors:
        return
    if unit.name != "layer":
        yield unit
        return
    for offset in range(unit.repeat):
        yield unit._replace(repeat=1, layer_index=unit.layer_index + offset)
