"""The model of a question: resolves its name, suggests similar names, and applies dimensions typed by hand."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures import catalog, datafile, names
from memlint.architectures.config import UnsupportedConfig
from memlint.architectures.families.llama import PLAIN_CONFIG, PLAIN_NAME
from memlint.architectures.model import Resolution, parameters
from memlint.architectures.resolve import resolve
from memlint.errors import UsageError
from memlint.memory.state.storage import SIZED
from memlint.question.check import DIMENSIONS
from memlint.question.model import Default, Question

FOLDER = "custom-model"  # the folder of a config.json with dimensions typed by hand
# The fields of a question and the names that Llama's config.json has for them.
KEYS: Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "vocab": "vocab_size",
    "ffn": "intermediate_size",
}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


class ModelChoice(NamedTuple):
    """`name`: the name in the config. `config`: the config.json of a model that is not in the catalog, else None.

    `family`: the transformers model type. `positions`: the most tokens of a sequence, 0 if unknown. `stored`: how the
    checkpoint is quantised, "none" if it is not.
    """

    name: str
    config: Mapping[str, Any] | None = None
    taken: tuple[Default, ...] = ()
    family: str = ""
    positions: int = 0
    stored: str = ""


def model_of(question: Question, hub: bool = False, exact: bool = False) -> ModelChoice:
    """The model of the question. Raises UsageError for an unknown one."""
    typed = {field: getattr(question, field) for field in DIMENSIONS if getattr(question, field) is not None}
    if question.tied is not None:
        typed["tied"] = question.tied
    choice = _named(question.model, hub, exact) if question.model else ModelChoice(FOLDER)
    if typed:
        choice = _with_dimensions(choice, question, typed)
    return _in_dtype(choice, question)


def known_model(name: str, hub: bool = False, exact: bool = False) -> str:
    """The name in a config of the model that has `name` among its names. Raises UsageError."""
    return _named(name, hub, exact).name


def is_known(name: str) -> bool:
    """Whether the catalog has a model with this name, or one for which it is a short name."""
    return catalog.find(name) is not None


# Names of files that llama.cpp reads: `...-GGUF`, `...-q4_K_M`, `...-IQ3_XS`, `....Q8_0`.
_GGUF = re.compile(r"[-_.:](gguf|i?q[1-8]_[0-9k]\w*)(?=$|[-_.])", re.IGNORECASE)


def _refuse_gguf(name: str) -> None:
    """Raises UsageError for the name of a GGUF file: no framework here trains one, and its weights have other sizes."""
    if not _GGUF.search(name):
        return
    made_from = _GGUF.split(name)[0].rpartition("/")[2]
    entry = catalog.find(made_from)
    ask = f"--model {_full_id(made_from, entry.name)}" if entry is not None else "the model it was made from"
    raise UsageError(
        f"--model {name}: files of llama.cpp (GGUF), which neither LLaMA-Factory nor TRL loads from there; "
        f"ask about {ask}, with --bits 4 for 4-bit weights"
    )


def _named(name: str, hub: bool, exact: bool) -> ModelChoice:
    folder = os.path.dirname(name) or "." if os.path.basename(name) == "config.json" else name
    if os.path.isdir(os.path.expanduser(folder)):
        place = os.path.abspath(os.path.expanduser(folder))
        found = resolve(place, (), hub=hub, exact=exact)
        _refuse_unknown(name, found)
        return _choice(place, found)
    _refuse_gguf(name)
    found = resolve(name, (os.getcwd(),), hub=hub, exact=exact)
    _refuse_unknown(name, found)
    entry = catalog.find(name)
    if "/" in name or entry is None or entry.stored is not None:
        return _choice(name, found)
    owned = _full_id(name, entry.name)
    owned = owned if "/" in owned else entry.name  # a config needs the id of a repository
    taken = (Default("model", owned, f"the catalog's model of the name `{name}`"),) if owned != name else ()
    return _choice(owned, found, taken)


# Endings of the id of the copy in transformers' format (-hf), and of a model's first release (-v0.1).
_ENDINGS = ("", "-hf", "-v0.1")


@lru_cache(1024)
def _full_id(name: str, known: str) -> str:
    """The full id that a short name means: `Meta-Llama-3-8B` for `llama-3-8b`, `Llama-2-7b-hf` for `llama-2-7b`.

    Candidates have the same letters and as many parameters as the model `known`. Taken is the longest one of the owner
    with most models; without a candidate, `name` itself.
    """
    found = _by_letters()
    alike = [one for ending in _ENDINGS for one in found.get(names.literal(name + ending), ()) if "/" in one]
    same = [one for one in alike if _parameters(one) == _parameters(known)]
    owners = Counter(one.partition("/")[0] for one in identifiers())
    return max(same, key=lambda one: (owners[one.partition("/")[0]], len(one)), default=name)


@cache
def _by_letters() -> Mapping[str, tuple[str, ...]]:
    """Letters of the last part of an id -> the ids of the catalog with these letters."""
    found: dict[str, tuple[str, ...]] = {}
    for one in identifiers():
        key = names.literal(one.rpartition("/")[2])
        found[key] = (*found.get(key, ()), one)
    return found


def _parameters(identifier: str) -> int:
    """The number of parameters of a model of the catalog; 0 if its family is not modelled."""
    entry = catalog.find(identifier)
    try:
        return parameters(catalog.architecture(entry)) if entry is not None else 0
    except UnsupportedConfig:
        return 0


def _choice(name: str, found: Resolution, taken: tuple[Default, ...] = ()) -> ModelChoice:
    """The choice for a resolved name. Raises UsageError for packed weights of unknown size, as BitNet's."""
    architecture = found.architecture
    if architecture is None:
        return ModelChoice(name, None, taken)
    if architecture.stored.method not in ("none", *SIZED):
        raise UsageError(
            f"--model {name}: its weights are packed by {architecture.stored.method}, whose size is not modelled; "
            "ask about the model that it was made from"
        )
    return ModelChoice(name, None, taken, architecture.family, architecture.max_positions, architecture.stored.method)


def _refuse_unknown(name: str, found: Resolution) -> None:
    """Raises UsageError for a name that is not in the catalog. Models of unmodelled families are in it."""
    if found.architecture is not None or found.config is not None or catalog.find(name) is not None:
        return
    near = suggestions(name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `memlint models` lists those that are known"
    raise UsageError(f"--model {name}: {found.reason}{hint}")


def suggestions(name: str) -> list[str]:
    """At most three models of the catalog with the names most similar to `name`."""
    found = _by_letters()
    near = difflib.get_close_matches(names.literal(name.split("/")[-1]), found, 3, 0.7)
    return [found[key][0] for key in near]


@cache
def identifiers() -> tuple[str, ...]:
    """Every id that the shipped catalog lists."""
    rows = (json.loads(line) for line in datafile.text(catalog.FILE).splitlines())
    return tuple(identifier for row in rows for identifier in row["ids"])


def _with_dimensions(choice: ModelChoice, question: Question, typed: Mapping[str, Any]) -> ModelChoice:
    """The model with the typed dimensions. Other dimensions are those of the named model, else defaults for a Llama."""
    base = _config_of(choice.name) if question.model else {}
    keys = {("tie_word_embeddings" if field == "tied" else KEYS[field]): value for field, value in typed.items()}
    if question.model:
        missing = [field for field in typed if field != "tied" and KEYS[field] not in base]
        missing = [field for field in missing if field not in ("kv_heads", "head_dim")]
        if missing:
            raise UsageError(f"--{missing[0].replace('_', '-')}: the config of {question.model} says it in another way")
        kept = {key: value for key, value in base.items() if key not in _per_layer(keys)}
        _refuse_shapes({**kept, **keys})
        return choice._replace(name=FOLDER, config={**kept, **keys})
    full, taken = _llama(keys)
    return ModelChoice(FOLDER, full, taken, full["model_type"])


def _per_layer(keys: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys with one value per layer, which another number of layers makes wrong."""
    return ("layer_types", "max_window_layers") if "num_hidden_layers" in keys else ()


def _config_of(name: str) -> Mapping[str, Any]:
    found = resolve(name, (os.getcwd(),))
    config = found.config
    if not config:
        raise UsageError(f"{name}: its config.json is not known, so that no dimension of it can be changed")
    return config


def _llama(keys: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Default, ...]]:
    """A config.json of a model built like Llama, with defaults for what was not typed."""
    for needed in ("num_hidden_layers", "hidden_size"):
        if needed not in keys:
            raise UsageError("dimensions of a model without --model: --layers and --hidden are needed")
    hidden = keys["hidden_size"]
    heads = keys.get("num_attention_heads") or max(1, hidden // 128)
    rules: tuple[tuple[str, str, int, str], ...] = (
        ("heads", "num_attention_heads", heads, "hidden / 128"),
        ("kv_heads", "num_key_value_heads", heads, "as many as heads"),
        ("ffn", "intermediate_size", _swiglu_width(hidden), "8/3 of hidden, up to a multiple of 256, as Llama has it"),
        ("vocab", "vocab_size", 32000, "Llama 2's"),
    )
    taken = tuple(Default(field, value, why) for field, key, value, why in rules if key not in keys)
    config: dict[str, Any] = {**PLAIN_CONFIG, "torch_dtype": "bfloat16"}
    config |= {key: value for _, key, value, _ in rules}
    config |= keys
    config.setdefault("tie_word_embeddings", False)
    _refuse_shapes(config)
    return config, (Default("architecture", PLAIN_NAME, "dimensions say no family"), *taken)


def _swiglu_width(hidden: int) -> int:
    return -(-(hidden * 8 // 3) // 256) * 256


def _refuse_shapes(config: Mapping[str, Any]) -> None:
    """Raises UsageError for numbers of heads that do not divide. A config without Llama's names is not checked."""
    hidden, heads, kv = (config.get(key) for key in ("hidden_size", "num_attention_heads", "num_key_value_heads"))
    if not config.get("head_dim") and isinstance(hidden, int) and isinstance(heads, int) and hidden % heads:
        raise UsageError(f"--heads {heads}: does not divide --hidden {hidden}; say --head-dim as well")
    if isinstance(heads, int) and isinstance(kv, int) and heads % kv:
        raise UsageError(f"--kv-heads {kv}: does not divide --heads {heads}")


def _in_dtype(choice: ModelChoice, question: Question) -> ModelChoice:
    """The model as a checkpoint in the question's dtype, because transformers loads a checkpoint in its own dtype."""
    dtype = DTYPES.get(question.dtype, "")
    if not (question.inference and dtype) or question.engine in ("vllm", "sglang"):
        return choice
    config = choice.config or _config_of(choice.name)
    if (config.get("dtype") or config.get("torch_dtype")) == dtype:
        return choice
    others = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype")}
    taken = Default("model", FOLDER, f"a copy of {choice.name} in {dtype}: transformers loads the dtype that is stored")
    return choice._replace(name=FOLDER, config={**others, "torch_dtype": dtype}, taken=(*choice.taken, taken))
