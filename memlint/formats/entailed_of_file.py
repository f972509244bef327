"""What follows from changes that plans make of a file: the file is read again with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.formats.deepspeed.edits import FOLLOW_DEEPSPEED
from memlint.formats.fields import Fields
from memlint.formats.section_keys import path_of
from memlint.run import Entailed, Run, get
from memlint.source.document import Document

Read = Callable[[Document], Fields]

# A plan says these of an adapter by itself.
_OF_PLANS = ("method.rank", "method.alpha", "method.targets", "planning.entails")
_DEFAULTS = Run("", "")

# What the frameworks that quantise with bitsandbytes' 4 bits make of the base.
QUANTIZED: Mapping[str, Any] = {
    "model.quantization.method": "bnb",
    "model.quantization.bits": 4,
    "model.quantization.kind": "nf4",
}


def follows(
    document: Document, fields: Fields, read: Read, given: Mapping[str, Any], keys: Mapping[str, Any]
) -> Entailed | None:
    """What the file with these dotted keys says beside `given`; None where that is nothing new."""
    value = document.value
    for name, new in keys.items():
        value = with_value(value, path_of(name), new)
    before, then = fields.values, read(document._replace(value=value)).values
    # What a plan for DeepSpeed says of dtypes by itself counts as changed, too.
    dtypes = FOLLOW_DEEPSPEED if "parallelism.engine" in given else ()
    names = [name for name in dict.fromkeys((*before, *then, *dtypes)) if name not in (*given, *_OF_PLANS)]
    after = {name: then[name] if name in then else get(_DEFAULTS, name) for name in names}
    changes = tuple((name, new) for name, new in after.items() if name in dtypes or before.get(name, ...) != new)
    return Entailed(tuple(given.items()), changes) if changes else None


def with_value(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """The mapping with `new` at the path."""
    if not path:
        return new
    given = value if isinstance(value, dict) else {}
    return {**given, path[0]: with_value(given.get(path[0]), path[1:], new)}
