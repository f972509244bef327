"""Components that a file names and keys that a recipe asks for: what torchtune's loader stops at (0.3.1 to 0.6.1).

A component is called with the other keys of its section (torchtune/config/_instantiate.py), and a recipe reads its keys
as attributes, which raises where the file has none. The table is from tools/torchtune_components.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.fields import as_int, as_number, interpolated, value_at
from memlint.formats.schema.suggest import nearest
from memlint.formats.torchtune.config import TuneConfig
from memlint.formats.torchtune.recipes import NEWEST
from memlint.formats.torchtune.recognise import COMPONENT

_FILE = os.path.join(os.path.dirname(__file__), "components.json")
_OWN = "torchtune."
# Sections with what a recipe hands over beside the file's keys (0.6.1 recipes/full_finetune_distributed.py, setup).
_GIVEN: Mapping[str, tuple[str, ...]] = {
    "tokenizer": (),
    "dataset": ("",),
    "checkpointer": ("should_load_recipe_state",),
    "loss": (),
    "metric_logger": (),
    "lr_scheduler": ("", "num_training_steps", "last_epoch"),
    "optimizer": (),
}
_ANY = "**"
# torch 2.13 optim/__init__.py; others are of packages that are not read here.
_TORCH = ("Adadelta", "Adagrad", "Adam", "AdamW", "SparseAdam", "Adamax", "ASGD", "SGD", "RAdam", "Rprop", "RMSprop")
# Those of torch 2.13 optim/adam.py, adamw.py and sgd.py.
_ADAM = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused"
_OPTIMIZERS: Mapping[str, str] = {
    "torch.optim.Adam": _ADAM,
    "torch.optim.AdamW": _ADAM,
    "torch.optim.SGD": "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused",
}
_TORCH_ALL = frozenset((*_TORCH, "NAdam", "LBFGS", "Adafactor", "Muon"))


@cache
def _table() -> Mapping[str, Any]:
    with open(_FILE, encoding="utf-8") as file:
        found: Mapping[str, Any] = json.load(file)
    return found


def _of_release(by_releases: Mapping[str, str], release: tuple[int, ...]) -> str:
    """The words of the release; "" where it has none."""
    name = ".".join(map(str, release))
    return next((words for releases, words in by_releases.items() if name in releases.split()), "")


def _release(config: TuneConfig) -> tuple[int, ...] | None:
    """The stated release, or the newest where nobody states one; None of a release that was not read."""
    release = config.context.versions.get("torchtune", NEWEST)
    known = {tuple(map(int, one.split("."))) for one in _table()["releases"]}
    return release if release in known else None


def component_issues(config: TuneConfig) -> Iterator[Issue]:
    """Of a file its components; of a command the keys that neither it nor its file has. Nothing where the repository
    has a copy of torchtune, or the recipe is not torchtune's."""
    release = _release(config)
    if release is None or config.missing or config.context.repository.own_functions("torchtune"):
        return
    if config.own.document.start is not None:
        yield from _missing_keys(config, release)
        return
    yield from _numbers(config)
    for section in _GIVEN:
        value = config.own.value.get(section)
        if isinstance(value, dict):
            yield from _component(config, section, value, release)


def _numbers(config: TuneConfig) -> Iterator[Issue]:
    """Numbers that PyTorch refuses as it builds the optimizer (torch 2.13 optim/adamw.py:54-63) or the adapter."""
    rank = value_at(config.own.value, ("model", "lora_rank"))
    if isinstance(rank, (int, str)) and not interpolated(rank) and (as_int(rank) or 0) < 1:
        message = f"`lora_rank: {rank}` is no whole number above 0, and the run fails"
        yield config.own.issue("bad-value", message, "model", "lora_rank")
    dropout = as_number(value_at(config.own.value, ("model", "lora_dropout")))
    if dropout is not None and not 0 <= dropout <= 1:
        message = f"`lora_dropout: {dropout}` is no share from 0 to 1: PyTorch refuses it"
        yield config.own.issue("bad-value", message, "model", "lora_dropout")
    optimizer = config.own.value.get("optimizer")
    if not isinstance(optimizer, dict) or not str(optimizer.get(COMPONENT, "")).startswith("torch.optim."):
        return
    for key in ("lr", "weight_decay", "eps"):
        number = as_number(optimizer.get(key))
        if number is not None and number < 0:
            yield config.own.issue("bad-value", f"`{key}` must be at least 0: PyTorch refuses it", "optimizer", key)
    betas = optimizer.get("betas")
    known = [as_number(one) for one in betas] if isinstance(betas, list) else []
    if any(one is not None and not 0 <= one < 1 for one in known):
        message = "each of `betas` must be from 0 to below 1: PyTorch refuses them"
        yield config.own.issue("bad-value", message, "optimizer", "betas")


def _missing_keys(config: TuneConfig, release: tuple[int, ...]) -> Iterator[Issue]:
    """What a command and the file that it names lack; of a config of torchtune's own not every key is known here."""
    start, by_releases = config.own.document.start, _table()["recipes"].get(config.recipe.name)
    if by_releases is None or start is None or start.launcher != "tune" or config.named is None or config.base:
        return
    values = config.merged()
    asked = _of_release(by_releases, release).split()
    lacking = [key for key in asked if key not in values]
    for section in _GIVEN:
        if isinstance(values.get(section), dict):
            lacking += [f"{section}.{key}" for key in _lacking(values[section], section, release)]
    if lacking:
        names = ", ".join(f"`{key}`" for key in lacking[:3])
        message = f"the recipe `{config.recipe.name}` needs {names}, which its file does not have: torchtune stops"
        yield config.own.issue("missing-key", message, "config", on_key=True)


def _lacking(value: Mapping[str, Any], section: str, release: tuple[int, ...]) -> list[str]:
    """What a section lacks of its component: the name itself, or arguments without a default."""
    name = value.get(COMPONENT)
    if name is None:
        return [COMPONENT]
    words = _of_release(_table()["components"].get(name, {}), release).split()
    handed = {words[0].rstrip("!") if one == "" and words else one for one in _GIVEN[section]}
    return [one[:-1] for one in words if one.endswith("!") and one[:-1] not in value and one[:-1] not in handed]


def _component(config: TuneConfig, section: str, value: dict[str, Any], release: tuple[int, ...]) -> Iterator[Issue]:
    name = value.get(COMPONENT)
    if not isinstance(name, str) or interpolated(name):
        return
    if name in _OPTIMIZERS:
        yield from _arguments(config, section, value, _OPTIMIZERS[name].split())
        return
    by_releases = _table()["components"].get(name)
    arguments = _of_release(by_releases, release) if by_releases is not None else ""
    if by_releases is None:
        yield from _unknown(config, section, name)
    elif not any(name_ for name_ in by_releases if ".".join(map(str, release)) in name_.split()):
        message = f"torchtune {'.'.join(map(str, release))} has no `{name}`: it stops as it loads the component"
        yield config.own.issue("bad-value", message, section, COMPONENT, severity=_severity(config))
    else:
        yield from _arguments(config, section, value, arguments.split())


def _severity(config: TuneConfig) -> str:
    """A warning where nobody states the release, which may be older than the table, or newer."""
    return "error" if "torchtune" in config.context.versions else "warning"


def _unknown(config: TuneConfig, section: str, name: str) -> Iterator[Issue]:
    """A name that no release has: a slip of one that they have, or any below `torchtune.` where a release is stated."""
    package, _, last = name.rpartition(".")
    if package == "torch.optim" and last not in _TORCH_ALL:
        near = nearest(last, _TORCH_ALL)
        hint = f", did you mean `torch.optim.{near}`?" if near else ""
        yield config.own.issue("bad-value", f"PyTorch has no `{name}`{hint}: torchtune stops", section, COMPONENT)
    elif not package:
        message = f"`{name}` is no dotted name of a class or function: torchtune stops as it imports it"
        yield config.own.issue("bad-value", message, section, COMPONENT)
    elif name.startswith(_OWN) and not name.startswith("torchtune.models."):
        close = nearest(
            last, [one.rpartition(".")[2] for one in _table()["components"] if one.startswith(f"{package}.")]
        )
        if close or "torchtune" in config.context.versions:
            hint = f", did you mean `{package}.{close}`?" if close else ""
            message = f"no release of torchtune since 0.3 has `{name}`{hint}: it stops as it loads the component"
            yield config.own.issue("bad-value", message, section, COMPONENT, severity=_severity(config))


def _arguments(config: TuneConfig, section: str, value: dict[str, Any], arguments: list[str]) -> Iterator[Issue]:
    """Arguments that the component does not take."""
    names = [one.rstrip("!") for one in arguments]
    stated = "torchtune" in config.context.versions or value[COMPONENT] in _OPTIMIZERS
    for key in value:
        if key != COMPONENT and key not in names and _ANY not in names and (stated or nearest(str(key), names)):
            message = f"`{value[COMPONENT]}` takes no argument `{key}`: torchtune stops with a TypeError"
            near = nearest(str(key), names)
            yield config.own.issue("unknown-key", message, section, str(key), on_key=True, suggestion=near)
