"""Models that a script gives a trainer of TRL beside the one that trains, as keys: a teacher, a reward model.

A name that the trainer gets is one that it loads itself (trl 1.16 experimental/gkd/gkd_trainer.py and
trainer/grpo_trainer.py, __init__).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.formats.trainer.python.model import Keys, model_keys, origin_of
from memlint.source.python.values import Items, Known, Made, Table, Value, alternatives, is_on, source_of

TEACHER, REWARD = "teacher_model_name_or_path", "reward_model_name_or_path"
_LOADED_WITH = {TEACHER: "teacher_model_init_kwargs", REWARD: "reward_model_init_kwargs"}
_ARGUMENTS: Mapping[str, str] = {"teacher_model": TEACHER, "reward_model": REWARD, "reward_funcs": REWARD}
_REINFORCES = ("GRPOTrainer", "RLOOTrainer", "OnlineDPOTrainer", "XPOTrainer", "NashMDTrainer")
_TRAINERS: Mapping[str, tuple[str, ...]] = {
    "GKDTrainer": ("teacher_model",),
    **dict.fromkeys(_REINFORCES, ("reward_model", "reward_funcs")),
}
# Where the model stands that no name is given: counted from 0 (trl 0.12.2 to 1.16.0).
_POSITIONS: Mapping[str, int] = {"GKDTrainer": 1, "GRPOTrainer": 1, "RLOOTrainer": 1}
_PACKS = ("load_in_4bit", "load_in_8bit", "load_in_16bit")


def reinforces(trainer: Made) -> bool:
    """Whether the trainer learns from rewards, which a model may give."""
    return trainer.last in _REINFORCES


def keys_of_others(trainer: Made) -> Keys:
    """The keys of the one frozen model that the trainer gets, its name and its dtype."""
    found = list(_frozen_models(trainer))
    if len(found) != 1:
        return {}
    ((key, model),) = found
    said = model_keys(model)
    dtype = said.get("dtype")
    loaded = {} if dtype is None else {_LOADED_WITH[key]: Table({"dtype": dtype}, source_of(model))}
    return {key: said["model_name_or_path"], **loaded}


def unmodelled_others(trainer: Made) -> str:
    """Why the figure cannot count the frozen models that the trainer gets; "" where it can."""
    found = [model_keys(model) for _, model in _frozen_models(trainer)]
    if len(found) > 1:
        return "scores completions with several models"
    packs = any(is_on(keys.get(name)) for keys in found for name in _PACKS)
    return "gives its trainer a second model in 4 or 8 bits" if packs else ""


def handed_over(trainer: Made, model: Value | None) -> list[object]:
    """Where the models are loaded that the trainer gets and that are counted: those of keys, and a reference with the
    weights of `model`."""
    counted = [model for _, model in _frozen_models(trainer)]
    reference = trainer.arguments.get("ref_model")
    if isinstance(reference, Made) and model is not None and _is_same(model_keys(model), model_keys(reference)):
        counted.append(reference)
    return [source_of(loaded) for one in counted if (loaded := origin_of(one)) is not None]


def _is_same(model: Keys, reference: Keys) -> bool:
    """Whether a reference has the name and the dtype of the model that trains, as a copy of it has."""
    named = ("model_name_or_path", "dtype") if "dtype" in {**model, **reference} else ("model_name_or_path",)
    pairs = ((model.get(name), reference.get(name)) for name in named)
    packs = any(is_on(reference.get(name)) for name in _PACKS)
    return not packs and all(isinstance(a, Known) and isinstance(b, Known) and a.value == b.value for a, b in pairs)


def _frozen_models(trainer: Made) -> Iterator[tuple[str, Value]]:
    """The key of each frozen model that the trainer gets, and the model."""
    position = _POSITIONS.get(trainer.last)
    for name in _TRAINERS.get(trainer.last, ()):
        value = trainer.arguments.get(name)
        if value is None and position is not None and len(trainer.positional) > position and name != "reward_model":
            value = trainer.positional[position]
        for one in value.values if isinstance(value, Items) else () if value is None else (value,):
            if name == "teacher_model" or all(map(_is_model, alternatives(one))):
                yield _ARGUMENTS[name], one


def _is_model(value: Value) -> bool:
    """Whether a reward is a model's, not a function's: its name, or what loads it."""
    if isinstance(value, Known):
        return isinstance(value.value, str) and "/" in value.value
    return isinstance(value, Made) and value.last in ("from_pretrained", "get_peft_model")
