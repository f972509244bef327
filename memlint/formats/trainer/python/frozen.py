"""Which parameters of its model a script freezes and lets train, in the order of its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.formats.trainer.python.model import GIVES_MODEL, origin_of
from memlint.source.python.members import FREEZES
from memlint.source.python.values import External, Known, Made, Undetermined, Value, alternatives

ONE_BY_ONE = "the script freezes parameters one by one"
# `requires_grad_` of something unknown, and methods of models: `model.freeze_base_model()`.
_OTHER = re.compile(r"^unknown\(\)\.requires_grad_$|\.(?:un)?freeze_?\w*$")
# transformers 5.23 models/whisper/modeling_whisper.py, WhisperForConditionalGeneration.freeze_encoder.
_FROZEN_BY_METHOD = {"freeze_encoder": "get_encoder"}
# transformers 5.23 modeling_utils.py, EmbeddingAccessMixin and PreTrainedModel: methods that give a part of the model.
PARTS_BY_METHOD = ("get_input_embeddings", "get_output_embeddings", "get_encoder", "get_decoder")


class _Setting(NamedTuple):
    """`requires_grad` of a part of the model: its path ("" of the whole, None where it is not known), and whether it
    trains (None where that is not known)."""

    path: str | None
    trains: bool | None


def frozen_parts(seen: list[Made], model: Value) -> tuple[tuple[str, bool], ...] | Undetermined:
    """Paths of parts of `model`, each with whether it trains, of which the later ones decide: `("", False)`,
    `("model.layers[-4:]", True)`. Empty where nothing is frozen; undetermined where it is not known what is."""
    origins = [origin_of(one) for one in alternatives(model)]
    found = [one for made in seen for one in _settings(made, origins)]
    if all(one.trains for one in found):
        return ()
    known = tuple((one.path, one.trains) for one in found if one.path is not None and one.trains is not None)
    return known if len(known) == len(found) else Undetermined(ONE_BY_ONE)


BESIDE_ADAPTER = "the script trains weights beside its adapter"
_OF_ADAPTER = re.compile(r"""["'][\w.]*(?:lora|adapter)""", re.IGNORECASE)
_AROUND = 300  # characters of a loop over parameters


def trains_beside_adapter(seen: list[Made], model: Value, text: str) -> bool:
    """Whether weights of `model` may train that are none of its adapter: `requires_grad` is set after get_peft_model
    has frozen them. Loops that look for the adapter's own names set nothing else."""
    adapted = [number for number, made in enumerate(seen) if made.last == "get_peft_model"]
    origins = [origin_of(one) for one in alternatives(model)]
    later = seen[adapted[-1] + 1 :] if adapted else []
    return any(
        setting.trains is not False and _OF_ADAPTER.search(_text_around(made, text)) is None
        for made in later
        for setting in _settings(made, origins)
    )


def _text_around(made: Made, text: str) -> str:
    span = made.source.span
    return text if span is None else text[max(0, span.start - _AROUND) : span.end + _AROUND]


def _settings(made: Made, origins: list[Value]) -> Iterator[_Setting]:
    is_set = made.name == FREEZES
    if not is_set and _OTHER.search(made.name) is None:
        return
    if made.base is not None and not any(_root(made.base) is one for one in origins):
        return
    if made.last in _FROZEN_BY_METHOD and _path(made.base) == "":
        yield _Setting(_FROZEN_BY_METHOD[made.last], False)
        return
    value = made.positional[0] if made.positional else None
    trains = bool(value.value) if isinstance(value, Known) else None
    is_certain = is_set and made.arguments["certain"] == Known(True)
    yield _Setting(_path(made.base) if is_certain else None, trains)


def _root(part: Value) -> Value:
    """What the model was loaded as of which this is a part."""
    return origin_of(part.of) if isinstance(part, External) and part.of is not None else origin_of(part)


def _path(part: Value | None) -> str | None:
    """`lm_head` of `model.lm_head`; "" of the model itself; None of what other methods give."""
    if isinstance(part, External) and part.of is not None:
        path = part.name.removeprefix(f"{part.of.name}().").removeprefix("module.")
        return path if _path(part.of) == "" else None
    if not isinstance(part, Made):
        return None
    if part.last in PARTS_BY_METHOD:
        return part.last if _path(part.base) == "" else None
    if origin_of(part) is part:
        return ""
    inner = part.base or next((one for one in part.positional if isinstance(one, Made)), None)
    return _path(inner) if part.last in GIVES_MODEL else None
