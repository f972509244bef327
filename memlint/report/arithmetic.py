"""The arithmetic of an estimate as text, one line per term, so that it can be redone with a calculator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory.arithmetic import Arithmetic, Factor, Term
from memlint.memory.values import Estimate, component_words
from memlint.report.table import HEADINGS
from memlint.report.terminal import Style, one_line
from memlint.report.units import gib


def lines(found: Arithmetic, estimate: Estimate, style: Style) -> Iterator[str]:
    """Dimensions, each component of the peak with its terms, their sum, and how it becomes the figure on the card."""
    phase = HEADINGS.get(found.phase, found.phase)
    yield style.paint(f"Arithmetic of the peak, in the {phase} phase", "bold")
    yield "  " + ", ".join(_counted(one) for one in found.facts)
    yield "  In bytes. [a x b] is one tensor: the allocator rounds it up to a multiple of 512 bytes."
    for component in found.components:
        yield ""
        yield f"  {component_words(component.name)} = {component.bytes:,} bytes = {gib(component.bytes)} GiB"
        for term in component.terms:
            yield f"    {one_line(term.label)} | {_formula(term)}"
    yield ""
    total = " + ".join(f"{one.bytes:,}" for one in found.components)
    yield f"  allocated | {total} = {found.allocated:,} bytes = {gib(found.allocated)} GiB"
    yield from _card_lines(found, estimate)


def _card_lines(found: Arithmetic, estimate: Estimate) -> Iterator[str]:
    reserved, figure = estimate.reserved_bytes, estimate.device_bytes
    if reserved is None or figure is None:
        return
    kept, outside = reserved - found.allocated, figure - reserved
    names = "tensors + what the allocator keeps besides + CUDA context and communication library"
    yield f"  on the card | {found.allocated:,} + {kept:,} + {outside:,} = {figure:,} bytes = {gib(figure)} GiB"
    yield f"    ({names})"


def _formula(term: Term) -> str:
    """ "32 x [16,384 tokens x 4,096 a token x 2 bytes] = 4,294,967,296"; the number alone without factors."""
    if not term.factors:
        return f"{term.bytes:,}"
    product = " x ".join(_counted(one) for one in term.factors)
    if term.tensors:
        product = f"{term.tensors} x [{product}]" if term.tensors > 1 else f"[{product}]"
    shared = f" / {term.divisor} cards" if term.divisor > 1 else ""
    return f"{product}{shared} = {term.bytes:,}"


def _counted(factor: Factor) -> str:
    return f"{factor.value:,} {factor.name}"


def as_values(found: Arithmetic) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    components = [
        {"name": one.name, "bytes": one.bytes, "terms": [_term_values(term) for term in one.terms]}
        for one in found.components
    ]
    facts = {one.name: one.value for one in found.facts}
    return {"phase": found.phase, "model": facts, "components": components, "allocated_bytes": found.allocated}


def _term_values(term: Term) -> dict[str, Any]:
    factors = [{"value": one.value, "name": one.name} for one in term.factors]
    return {
        "label": term.label,
        "bytes": term.bytes,
        "factors": factors,
        "tensors": term.tensors,
        "divisor": term.divisor,
    }
