"""The lengths to which a script's tokens are cut, as far as its calls show them."""

from __future__ import annotations

import re

from memlint.formats.trainer.python.model import Keys, class_of, origins_of
from memlint.source.python.expressions import CUT
from memlint.source.python.parameters import BOUND
from memlint.source.python.standard_library import OPTIONS
from memlint.source.python.values import Instance, Known, Made, Undetermined, Value, either, same, source_of

_LENGTH_NAMES = frozenset(
    {"max_len", "max_length", "max_seq_len", "max_seq_length", "max_sequence_length", "block_size"}
)
# Names of what a model is made of: what takes one beside a length makes its positions (`max_seq_len, dim, theta`).
_SIZE_NAME = re.compile(r"(?:^|_)(?:d_model|dims?|theta|n?_?heads?|channels|hidden_size|embed_dim|width)$")
_TOKEN_NAME = re.compile(r"ids?\b|tok|label|mask|encod|seq", re.IGNORECASE)  # names of what holds tokens
_PART_NAME = re.compile(r"prompt|answer|response|completion|source|target|context|question|query|chosen|rejected|image")
_SHORTEST = 32  # tokens: what is cut shorter is no training sequence
_NO_LIMIT = 1_000_000  # tokens: a tokenizer that cuts there cuts nothing
_WITH_DECODER = ("ForSeq2SeqLM", "ForConditionalGeneration", "ForSpeechSeq2Seq", "MTModel")


def lengths_of(seen: list[Made]) -> list[Value]:
    """Lengths that a script tokenizes or cuts to."""
    found = [made.arguments["max_length"] for made in seen if _tokenizes(made)]
    return found or [made.arguments["length"] for made in seen if _cuts(made)]


def lengths_of_calls(seen: list[Made]) -> list[Value]:
    """Lengths that the functions of a script are given under such a name."""
    bound = [made.arguments for made in seen if made.name == BOUND and not any(map(_is_size, made.arguments))]
    named = [value for values in bound for name, value in values.items() if name in _LENGTH_NAMES]
    return [value for value in named if isinstance(value, Known) and isinstance(value.value, int)]


def _is_size(parameter: str) -> bool:
    return _SIZE_NAME.search(parameter) is not None


def lengths_of_options(seen: list[Made]) -> list[Value]:
    """Lengths that the command line gives under such a name."""
    parsed = [made.arguments for made in seen if made.name == OPTIONS]
    named = [value for values in parsed for name, value in values.items() if name in _LENGTH_NAMES]
    return [value for value in named if not (isinstance(value, Known) and value.value is None)][:1]


# Names of options that bound a whole sequence, and of those that bound a part of it.
_BOUND_NAME = re.compile(r"(?:^|_)(?:len|length)$|^block_size$")
_NOT_WHOLE = re.compile(r"new|min|prompt|completion|answer|response|generat|query|target|summary|output|image")


def beside_the_command(lengths: list[Value], seen: list[Made]) -> list[Value]:
    """`lengths`; or why none is known, where they are defaults of the code, and the command gives another length, which
    code that is not followed may cut to."""
    parsed = (made.arguments for made in seen if made.name == OPTIONS)
    given = {name: value for values in parsed for name, value in values.items() if _bounds(name) and _is_given(value)}
    known = [value.value for value in lengths if isinstance(value, Known)]
    others = [name for name, value in given.items() if isinstance(value, Known) and value.value not in known]
    if not lengths or not others or any(map(_is_given, lengths)) or not all(map(_is_default, lengths)):
        return lengths
    return [Undetermined(f"the code cuts to {known[0]} by default, and the command gives `{others[0]}`")]


def _bounds(name: str) -> bool:
    return _BOUND_NAME.search(name) is not None and _NOT_WHOLE.search(name) is None


def _is_given(value: Value) -> bool:
    """Whether a word of the command line says it."""
    source = source_of(value)
    return source.how == "command" or source.path.startswith("--")


def _is_default(value: Value) -> bool:
    """Whether the code says it for the case that nobody does: a default of a parameter, a field or an option."""
    return isinstance(value, Known) and value.source.how in ("default", "option")


def length_of_dataset(dataset: Value | None) -> list[Value]:
    """The length that a dataset of the script's own class keeps: `TextDataset(rows, tokenizer, max_length=512)`."""
    kept = dataset.attributes if isinstance(dataset, Instance) else {}
    found = (value for name, value in kept.items() if name in _LENGTH_NAMES)
    length = next((value for value in found if isinstance(value, Known) and isinstance(value.value, int)), None)
    return [] if length is None else [length]


def lengths_of_sides(seen: list[Made]) -> Keys:
    """The two lengths that a script tokenizes sources and targets to, where they differ. Targets are `text_target`
    (transformers 5.23 tokenization_utils_base.py, __call__), else what is cut to another length than the first."""
    calls = [made for made in seen if _tokenizes(made)]
    targets = [made for made in calls if _has_target_alone(made)]
    named = bool(targets)
    if not named:
        targets = [made for made in calls if not same(made.arguments["max_length"], calls[0].arguments["max_length"])]
    sources = [made.arguments["max_length"] for made in calls if not any(made is target for target in targets)]
    if not targets or not (named or sources):
        return {}
    several, own = "several lengths are tokenized to", Undetermined("the tokenizer's own limit")
    return {
        "max_source_length": either(sources, several) if sources else own,
        "max_target_length": either([made.arguments["max_length"] for made in targets], several),
    }


def writes_targets(model: Value) -> bool:
    """Whether the model's encoder reads a source and its decoder writes a target."""
    return any(isinstance(one, Made) and class_of(one).endswith(_WITH_DECODER) for one in origins_of(model))


def truncates(made: Made) -> bool:
    """Whether a call may cut its texts: `truncation=True` cuts to the tokenizer's own length where none is said."""
    truncation = made.arguments.get("truncation")
    return _cuts(made) or not (truncation is None or (isinstance(truncation, Known) and not truncation.value))


def fills(seen: list[Made]) -> bool:
    """Whether every sequence has the length: all texts are padded to it, or one long text is cut into blocks of it."""
    calls = [made for made in seen if _tokenizes(made)]
    return all(map(_pads, calls)) if calls else any(map(_makes_blocks, seen))


def _pads(made: Made) -> bool:
    """`padding="max_length"`; `True` pads to the longest of the batch (transformers 4.57 tokenization_utils_base.py,
    _get_padding_truncation_strategies)."""
    padding = made.arguments.get("padding")
    return isinstance(padding, Known) and padding.value == "max_length"


def _makes_blocks(made: Made) -> bool:
    """`t[i : i + block_size]`, the group_texts of transformers' examples."""
    bound = made.arguments.get("bound")
    return _cuts(made) and isinstance(bound, Known) and bound.value == "block_size"


def _tokenizes(made: Made) -> bool:
    """`tokenizer(text, max_length=..., truncation=True)`."""
    truncation, length = made.arguments.get("truncation"), made.arguments.get("max_length")
    if isinstance(length, Known) and isinstance(length.value, int) and length.value >= _NO_LIMIT:
        return False
    return length is not None and isinstance(truncation, Known) and bool(truncation.value)


def _has_target_alone(made: Made) -> bool:
    return "text_target" in made.arguments and not made.positional and "text" not in made.arguments


def _cuts(made: Made) -> bool:
    """`ids[:max_length]`, `t[i : i + block_size]`: a script that tokenizes by itself cuts its sequences so; rows and
    texts are none."""
    length, of, bound = (made.arguments.get(name) for name in ("length", "of", "bound"))
    if made.name != CUT or not (isinstance(length, Known) and isinstance(of, Known)):
        return False
    if not isinstance(length.value, int) or length.value < _SHORTEST:
        return False
    if isinstance(bound, Known) and bound.value == "block_size":
        return True
    return _TOKEN_NAME.search(str(of.value)) is not None and _PART_NAME.search(str(of.value).lower()) is None
