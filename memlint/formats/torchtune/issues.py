"""Issues of a torchtune file: what its recipes refuse, stop at, or leave out without a word (0.3 to 0.6.1 and main)."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Fields, as_int, as_number, value_at
from memlint.formats.section_keys import path_of
from memlint.formats.torchtune import families
from memlint.formats.torchtune.components import component_issues
from memlint.formats.torchtune.config import TuneConfig
from memlint.formats.torchtune.parallel import TENSOR
from memlint.formats.torchtune.recognise import COMPONENT
from memlint.formats.torchtune.training import (
    IN_BACKWARD,
    LENGTH,
    MODE,
    OFFLOADS,
    PACKED,
    RECOMPUTES,
    packs,
    reads_mode,
    trains_adapter,
)
from memlint.run import UNKNOWN

_REFUSES = "torchtune refuses to start"
_OF_ONE_DEVICE = frozenset(
    {
        *("full_finetune_single_device", "lora_finetune_single_device", "lora_dpo_single_device"),
        *("ppo_full_finetune_single_device", "knowledge_distillation_single_device", "qat_single_device"),
    }
)
_SINCE_OFFLOAD, _SINCE_CLIPPING = (0, 4), (0, 4)


def torchtune_issues(fields: Fields, config: TuneConfig) -> tuple[Issue, ...]:
    """Where the file of a command is missing, keys may have values that nobody sees, so that nothing is said."""
    if config.missing or config.recipe.stage in ("ppo", "grpo"):
        return ()
    every = (*component_issues(config), *_launch(config), *_arguments(config), *_dtype(config), *_in_backward(config))
    return (*every, *_offload(config), *_modes(config), *_packing(config), *_tensor(fields, config))


def _issue(
    config: TuneConfig, keys: tuple[str, ...], message: str, severity: str = "error", code: str = "conflict"
) -> Iterator[Issue]:
    """At the first of the keys that the document itself has; nothing where all come from a file below, which has the
    issue."""
    own = config.own
    key = next((key for key in keys if value_at(own.value, path_of(key)) is not None), "")
    if key:
        yield own.issue(code, message, *path_of(key), severity=severity)


def _launch(config: TuneConfig) -> Iterator[Issue]:
    """torchtune/_cli/run.py, _run_cmd (0.1.1 to main): a recipe for one device takes none of torchrun's options."""
    start = config.own.document.start
    alone = config.recipe.name in _OF_ONE_DEVICE
    if start is not None and alone and start.launcher == "tune" and start.machine.gpus > 1:
        message = f"`{config.recipe.name}` is a recipe for one device; `tune run` refuses to start it on several"
        yield config.own.issue("conflict", message, "config", on_key=True)


def _arguments(config: TuneConfig) -> Iterator[Issue]:
    """A component is called with the other keys of its section (torchtune/config/_instantiate.py)."""
    component = config.component("model")
    taken = families.arguments_of(component)
    section = config.own.value.get("model")
    if taken is None or not isinstance(section, dict):
        return
    unknown = [key for key in section if key != COMPONENT and key not in taken]
    name = component.rpartition(".")[2]
    if not unknown or name in config.context.repository.own_functions("torchtune/models"):
        return  # a fork's builder may take more
    for key in unknown:
        message = f"`{name}` takes no argument `{key}`; torchtune stops with a TypeError"
        yield config.own.issue("conflict", message, "model", key, on_key=True)


def _dtype(config: TuneConfig) -> Iterator[Issue]:
    """recipes/full_finetune_single_device.py, __init__ (0.1.1 to main; every recipe that trains)."""
    if config.word("dtype") == "fp16":
        yield from _issue(config, ("dtype",), f"no recipe of torchtune trains in fp16; {_REFUSES}")


def _in_backward(config: TuneConfig) -> Iterator[Issue]:
    """recipes/full_finetune_single_device.py and, since 0.4, recipes/full_finetune_distributed.py, __init__. Recipes of
    adapters and of distillation do not read the key."""
    if not config.flag(IN_BACKWARD) or trains_adapter(config) or config.recipe.stage == "kd":
        return
    steps, norm = as_int(config.get("gradient_accumulation_steps")), as_number(config.get("clip_grad_norm"))
    if steps is not None and steps > 1:
        message = f"`{IN_BACKWARD}` updates in each backward and accumulates nothing; {_REFUSES}"
        yield from _issue(config, ("gradient_accumulation_steps", IN_BACKWARD), message)
    if norm is not None and config.release >= _SINCE_CLIPPING:
        message = f"`{IN_BACKWARD}` frees each gradient before a norm of all is known; {_REFUSES}"
        yield from _issue(config, ("clip_grad_norm", IN_BACKWARD), message)


def _offload(config: TuneConfig) -> Iterator[Issue]:
    """recipes/full_finetune_single_device.py:168 and its siblings, since 0.4; not in recipes of distillation."""
    if config.release < _SINCE_OFFLOAD or config.recipe.stage == "kd" or config.get(RECOMPUTES) is UNKNOWN:
        return
    if config.flag(OFFLOADS) and not config.flag(RECOMPUTES):
        message = f"`{OFFLOADS}` needs `{RECOMPUTES}`; {_REFUSES}"
        yield from _issue(config, (OFFLOADS, RECOMPUTES), message)


def _modes(config: TuneConfig) -> Iterator[Issue]:
    """recipes/full_finetune_distributed.py, _setup_model (0.3 to main)."""
    if reads_mode(config) and config.flag(RECOMPUTES) and config.raw(MODE) is not None:
        message = f"`{MODE}` beside `{RECOMPUTES}`: torchtune then recomputes no layer at all"
        yield from _issue(config, (MODE, RECOMPUTES), message, "warning")


def _packing(config: TuneConfig) -> Iterator[Issue]:
    """torchtune/datasets/_alpaca.py and its siblings (0.2 to main)."""
    own = config.component("dataset").startswith("torchtune.datasets.")
    if own and packs(config) is True and config.get(LENGTH) is None and config.release >= (0, 2):
        message = f"packed sequences need `{LENGTH}`; {_REFUSES}"
        yield from _issue(config, (PACKED, LENGTH), message)


def _tensor(fields: Fields, config: TuneConfig) -> Iterator[Issue]:
    """recipes/full_finetune_distributed.py, __init__ (0.6)."""
    tensor, world = as_int(config.get(TENSOR)) or 1, fields.get("parallelism.world_size")
    if tensor < 2 or trains_adapter(config) or config.recipe.is_distributed is False or world == 1:
        return
    if not config.has("tensor_parallel_plan"):
        yield from _issue(config, (TENSOR,), f"`{TENSOR}` needs `tensor_parallel_plan`; {_REFUSES}")
    if isinstance(world, int) and world % tensor:
        message = f"{world} GPUs are no multiple of the {tensor} that share a matrix; {_REFUSES}"
        yield from _issue(config, (TENSOR,), message)
