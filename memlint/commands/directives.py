"""`# memlint: gpu=A100-80GB gpus=8 with=accelerate.yaml model=...`: what a file says of itself in a comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from memlint.run import Origin
from memlint.source.document import Comment, Document


class Directives(NamedTuple):
    gpu: str = ""
    gpus: int = 0
    gpus_per_node: int = 0
    model: str = ""
    companions: tuple[str, ...] = ()
    origin: Origin = Origin("directive")


def directives(document: Document, found: Iterable[Comment]) -> Directives:
    own = Directives()
    for comment in found:
        if not comment.text.startswith("memlint:"):
            continue
        pairs = dict(word.split("=", 1) for word in comment.text[8:].split() if "=" in word)
        known: dict[str, Any] = {name: int(pairs[name]) for name in ("gpus", "gpus_per_node") if pairs.get(name, "").isdigit()}
        known |= {name: pairs[name] for name in ("gpu", "model") if pairs.get(name)}
        own = own._replace(**known, origin=Origin("directive", document.path, *comment.span[2:4]))
        if pairs.get("with"):
            own = own._replace(companions=tuple(pairs["with"].split(",")))
    return own
