"""Which layers attend to a sliding window only."""

from __future__ import annotations

from memlint.architectures.config import ModelConfig


def window_size(c: ModelConfig) -> int:
    value = c.get("sliding_window")
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 32 else 0


def windows(c: ModelConfig) -> list[int]:
    """The sliding window of each layer, 0 for full attention.

    `layer_types` decides where the config has it; else Qwen's `use_sliding_window` and
    `max_window_layers`; else a `sliding_window` holds for every layer (Mistral, Phi-3).
    """
    count, window = c.layers(), window_size(c)
    kinds = c.items("layer_types")
    if kinds:
        return [window if kind == "sliding_attention" else 0 for kind in (kinds * count)[:count]]
    if c.has("use_sliding_window") or "max_window_layers" in c.defaults:
        first = c.integer("max_window_layers", 0, 0)
        return [window if c.flag("use_sliding_window") and index >= first else 0 for index in range(count)]
    return [window] * count


def alternating(c: ModelConfig, every: int, first: int = -1) -> list[int]:
    """Every `every`-th layer attends fully, the others to the window, unless `layer_types` says it. `first`: the first
    of them; the last of each group of `every` by default."""
    if c.items("layer_types"):
        return windows(c)
    window = window_size(c)
    return [0 if (index - first) % every == 0 else window for index in range(c.layers())]
