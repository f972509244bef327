"""What a run takes of one card, as every report says it."""

from __future__ import annotations

from memlint._record import NamedTuple


class CardBytes(NamedTuple):
    """What a run takes of one card, bytes: the figure, and the interval in which it lies.

    `unclamped_high` is the upper end on a card with room for it. It lies above `high` where the allocator gives back
    cached blocks on a full card, so that the run ends at the card's size and still fits. `usable`: what the card has
    for the run; 0 where no card is known.
    """

    figure: int
    low: int
    high: int
    unclamped_high: int
    usable: int = 0
