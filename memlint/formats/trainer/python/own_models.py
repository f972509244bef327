"""Models that the repository writes by itself: `class GPT(nn.Module)`, of which the layers are not known.

A loop that trains one is a run whose batch, length, engine and optimizer are known and whose model is not. Other
modules than those that read tokens, such as a network for images, are none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memlint.formats.trainer.python.libraries import CAST, CHECKPOINTS
from memlint.formats.trainer.python.model import Keys, dtype_of, is_named_like_language_model, loads
from memlint.source.python.classes import external_bases
from memlint.source.python.members import FREEZES, OBJECT
from memlint.source.python.methods import module_of
from memlint.source.python.values import (
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
    alternatives,
)

_MODULES = ("Module", "PreTrainedModel", "LightningModule")
_MAX_PARTS = 2_000  # of one module: those of a few layers tell what it is
_READS_TOKENS = re.compile(r"^(?!.*(?:patch|pos|time|rotary|rope|sin|label)).*embeddings?$", re.IGNORECASE)
_OF_TEXTS = re.compile(
    r"attention|attn|transformer|gpt|llama|mamba|rwkv|bert|decoder|language_?model|lm(?:$|o)", re.IGNORECASE
)
_OF_IMAGES = re.compile(r"vision|image|diffusion|unet|dit$|vae|resnet|conv|pixel|graph|gnn", re.IGNORECASE)
# Code that keeps less for backward in its `forward`, which is not followed.
_MAY_CHECKPOINT = re.compile(r"\bcheckpoint(?:_sequential)?\(|checkpoint_wrapper|set_activation_checkpointing")
_OWN = "is a model of the repository's own"


def own_module(model: Value) -> Instance | None:
    """The object of the repository's class that a model is, below what wraps it."""
    for _ in range(8):
        if isinstance(model, Instance):
            return model if _is_module(model) else None
        if not isinstance(model, Made) or loads(model):
            return None
        own = model.attributes.get(OBJECT) or model.base
        given = (one for each in (*model.positional, *model.arguments.values()) for one in alternatives(each))
        found = own or next((one for one in given if isinstance(one, (Made, Instance))), None)
        if found is None:
            return None
        model = found
    return None


def is_own_language_model(model: Value) -> bool:
    """Whether this stands for a model of the repository that reads tokens: its class is called like a language model's
    (`LlamaForCausalLM` of a changed copy of transformers' file), or holds an embedding and attention."""
    if isinstance(model, Made) and is_named_like_language_model(model):
        return True
    module = own_module(model)
    return module is not None and _is_of_tokens(module)


def own_models(seen: Iterable[Made]) -> list[Made]:
    """The models of the repository that read tokens, one of each class, without those that are a part of another."""
    modules = [one.attributes[OBJECT] for one in seen if one.last in _MODULES and OBJECT in one.attributes]
    found = [one for one in modules if isinstance(one, Instance) and _is_of_tokens(one)]
    inner = {id(part) for one in found for part in _parts(one) if part is not one}
    whole = {id(one.of): one for one in reversed(found) if id(one) not in inner}  # of several alike, the first
    return [module_of(one) for one in whole.values()]


def keys_of_own(model: Made, seen: Iterable[Made]) -> Keys:
    """What is known of a model of the repository: nothing of its tensors; its dtype and what of it trains, as far as
    its modules are seen."""
    module = own_module(model)
    name = module.of.name if module is not None else model.name
    reason = Undetermined(f"`{name}` {_OWN}", model.source)
    keys: Keys = dict.fromkeys(("model_name_or_path", "dtype", "use_peft", "attn_implementation"), reason)
    if module is None or not any(isinstance(part, Made) for part in _parts(module)):
        return keys
    keys["dtype"] = _dtype(module, seen, reason)
    if not any(made.name == FREEZES for made in seen):
        keys["use_peft"] = Known(False, model.source)
    return {**keys, CHECKPOINTS: _checkpoints(module, model)}


def _dtype(module: Instance, seen: Iterable[Made], reason: Undetermined) -> Value:
    """What the module is cast to; else torch's default, where no tensor of it is made in another."""
    if CAST in module.attributes:
        return dtype_of(module.attributes[CAST])
    given = [part.arguments["dtype"] for part in _parts(module) if isinstance(part, Made) and "dtype" in part.arguments]
    changes = any(made.last in ("set_default_dtype", "init_empty_weights") for made in seen)
    said = [one for one in given if not (isinstance(one, Known) and one.value is None)]
    return reason if changes or said else Known("float32", reason.source)


def _checkpoints(module: Instance, model: Made) -> Value:
    """Whether the module keeps the input of its layers alone: an attribute of it says, or no code of it could."""
    parts = [part for part in _parts(module) if isinstance(part, Instance)]
    if CHECKPOINTS in module.attributes and isinstance(module.attributes[CHECKPOINTS], Known):
        return module.attributes[CHECKPOINTS]
    if not any(_MAY_CHECKPOINT.search(text) for text in {part.of.module.text for part in parts}):
        return Known(False, model.source)
    named = [value for part in parts for name, value in part.attributes.items() if "checkpoint" in name.lower()]
    switches = [one for one in named if not isinstance(one, (External, PythonFunction, Made))]
    if switches and all(isinstance(one, Known) and not one.value for one in switches):
        return Known(False, model.source)
    return Undetermined(f"`{module.of.name}` may checkpoint by itself", model.source)


def _is_module(model: Instance) -> bool:
    return any(base.last in _MODULES for base in external_bases(model.of))


def _is_of_tokens(module: Instance) -> bool:
    """Whether a module has an embedding, and attention or the name of a language model."""
    if not _is_module(module) or _OF_IMAGES.search(module.of.name):
        return False
    names = [part.of.name if isinstance(part, Instance) else part.last for part in _parts(module)]
    return any(map(_READS_TOKENS.search, names)) and any(map(_OF_TEXTS.search, names))


def _parts(module: Instance) -> Iterator[Instance | Made]:
    """A module and those that it holds, in lists and containers too."""
    pending: list[Value] = [module]
    found: set[int] = set()
    while pending and len(found) < _MAX_PARTS:
        one = pending.pop()
        if id(one) in found:
            continue
        found.add(id(one))
        if isinstance(one, Instance) and _is_module(one):
            yield one
            pending += one.attributes.values()
        elif isinstance(one, Made):
            yield one
            pending += (*one.positional, *one.arguments.values())
        elif isinstance(one, (Items, Table)):
            pending += one.values if isinstance(one, Items) else one.values.values()
