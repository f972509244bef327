"""A sweep as a picture: components at the peak, stacked, with the card. Needs matplotlib (the `plot` extra)."""

from __future__ import annotations

import importlib
import os
from typing import Any

from memlint.errors import UsageError
from memlint.memory.values import component_words
from memlint.question.sweep import Sweep
from memlint.report.table import peak_phase
from memlint.report.units import GIB

ENDINGS = (".svg", ".png", ".pdf")


def plot(found: Sweep, path: str) -> None:
    """Writes the picture to `path`, in the format of its ending. Raises UsageError."""
    if not path.endswith(ENDINGS):
        raise UsageError(f"--plot {path}: the name ends in {', '.join(ENDINGS)}")
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from error
    matplotlib.rcParams["svg.hashsalt"] = "memlint"  # the same picture has the same bytes
    figure = figures.Figure(figsize=(8, 4.5), layout="constrained")
    _draw(figure.subplots(), found)
    try:
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    except OSError as error:
        raise UsageError(f"--plot {path}: {error.strerror}") from None


def _draw(axes: Any, found: Sweep) -> None:
    known = [one for one in found.variants if one.run.estimate.phases]
    if not known:
        raise UsageError("--plot: none of the values has an estimate")
    places = list(range(len(known)))
    bottom = [0.0] * len(known)
    for name, sizes in _components(known).items():
        axes.bar(places, sizes, 0.7, bottom=bottom, label=name)
        bottom = [low + size for low, size in zip(bottom, sizes, strict=True)]
    estimates = [one.run.estimate for one in known]
    middle = [(one.device_bytes or 0) / GIB for one in estimates]
    below = [now - (one.device_low_bytes or 0) / GIB for now, one in zip(middle, estimates, strict=True)]
    above = [(one.device_high_bytes or 0) / GIB - now for now, one in zip(middle, estimates, strict=True)]
    errors = [[max(0.0, size) for size in below], [max(0.0, size) for size in above]]
    axes.errorbar(places, middle, errors, fmt="o", color="black", capsize=3, label="on the card")
    usable = estimates[0].budget_bytes
    if usable:
        axes.axhline(usable / GIB, color="red", linestyle="--", label=known[0].run.hardware.gpu)
    axes.set_xticks(places, [one.label for one in known], rotation=45 if len(known) > 8 else 0)
    axes.set_xlabel(found.key)
    axes.set_ylabel("GiB at the peak")
    axes.set_title(os.path.basename(known[0].run.path))
    axes.legend(fontsize="small")


def _components(known: list[Any]) -> dict[str, list[float]]:
    """GiB of each component at the peak, one number per variant; without components that are zero in all of them."""
    rows: dict[str, list[float]] = {}
    for index, one in enumerate(known):
        peak = peak_phase(one.run.estimate)
        for name, size in peak.components.items() if peak is not None else ():
            rows.setdefault(component_words(name), [0.0] * len(known))[index] = size / GIB
    return {name: sizes for name, sizes in rows.items() if any(sizes)}
