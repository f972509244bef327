"""AutoTrain: what follows from changes that plans make, read as the changed file is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.autotrain.keys import ADAPTER, QUANTIZATION
from memlint.formats.autotrain.recognise import is_config
from memlint.formats.entailed_of_file import QUANTIZED, Read, follows
from memlint.formats.fields import Fields
from memlint.formats.keys import Keys
from memlint.run import Entailed
from memlint.source.document import Document

_LORA: Mapping[str, Any] = {"method.kind": "lora"}
_KEEPS = "params.disable_gradient_checkpointing"


def find_entailed(document: Document, fields: Fields, read: Read, keys: Keys) -> Iterator[Entailed | None]:
    """`read`: the fields of a file of AutoTrain's."""
    kind, bits = fields.get("method.kind"), fields.get("model.quantization.bits", 16)

    def changed(given: Mapping[str, Any], values: Mapping[str, Any]) -> Entailed | None:
        named = {_name(name, document, keys): value for name, value in values.items()}
        return follows(document, fields, read, given, named)

    if kind == "full":
        yield changed(_LORA, {ADAPTER: True, QUANTIZATION: "none"})
    if kind in ("full", "lora") and bits != 4:
        yield changed({**_LORA, **QUANTIZED}, {ADAPTER: True, QUANTIZATION: "int4"})
    if fields.get("checkpointing.mode") == "none":
        yield changed({"checkpointing.mode": "full"}, {_KEEPS: False})


def _name(name: str, document: Document, keys: Keys) -> str:
    """The parameter in a config, or the flag."""
    return name if is_config(document.value) else keys[name].older[0]
