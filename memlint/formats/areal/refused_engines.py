"""What the engines of AReaL refuse when they are made, before the first step (1.0.4 areal/engine/fsdp_engine.py,
areal/api/cli_args.py and areal/trainer/rl_trainer.py; since when stands beside each check)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from memlint._record import NamedTuple
from memlint.formats.areal.config import ArealConfig
from memlint.formats.areal.placement import placement
from memlint.formats.areal.training import ADAPTER, BY_LAYER, OPTIMIZER, TREES, uses_fsdp
from memlint.formats.fields import as_bool, as_number, interpolated
from memlint.run import UNKNOWN

_ATTENTION, _PEFT = "actor.attn_impl", "actor.peft_type"
_BUILTIN = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
_OF_HUB = re.compile(r"[^/:\s]+/[^/:\s]+(?:@[^/:\s]+)?(?::\S+)?$")
_UPDATES = "actor.weight_update_mode"
_TWO_SPECS = ("actor", "ref", "critic", "rollout")


class EngineCheck(NamedTuple):
    """`holds`: whether AReaL refuses a file for what it says of `key`, from the release `since` on. `of_command`: the
    command is the other half of it, so that it is told there."""

    key: str
    holds: Callable[[ArealConfig], bool]
    message: str
    since: tuple[int, ...]
    of_command: bool = False


def is_on(config: ArealConfig, key: str) -> bool:
    """Whether a flag is on; a whole number but 0 is, as OmegaConf converts it."""
    value = config.value(key)
    return as_bool(value) is True or (isinstance(value, int) and value != 0)


def _word(config: ArealConfig, key: str) -> str:
    value = config.value(key)
    return value if isinstance(value, str) and not interpolated(value) and value != "???" else ""


def _has_other_attention(config: ArealConfig) -> bool:
    word = _word(config, _ATTENTION).rpartition("|")[2]
    return bool(word) and word not in _BUILTIN and not _OF_HUB.match(word)


def _trains_trees_of_shared_sequences(config: ArealConfig) -> bool:
    found = placement(config).trains
    return is_on(config, TREES) and uses_fsdp(config) and found is not None and found.context > 1


def _sees(config: ArealConfig) -> bool:
    return config.architecture is not None and config.architecture is not UNKNOWN and bool(config.architecture.towers)


def _steps_by_layer(config: ArealConfig) -> bool:
    word = _word(config, OPTIMIZER)
    return is_on(config, BY_LAYER) and uses_fsdp(config) and bool(word) and word != "adam"


def _has_adapter_under_a_launcher(config: ArealConfig) -> bool:
    start = config.own.document.start
    is_launcher = start is not None and ".launcher." in start.program.entry
    return is_launcher and config.algorithm() == "rl" and is_on(config, ADAPTER)


CHECKS = (
    EngineCheck(_ATTENTION, _has_other_attention, "this is no attention of transformers or of the hub", (1, 0, 2)),
    EngineCheck(
        TREES, _trains_trees_of_shared_sequences, "trees of sequences exclude GPUs that share sequences", (0, 5, 2)
    ),
    EngineCheck(
        TREES,
        lambda config: is_on(config, TREES) and is_on(config, "actor.is_critic") and uses_fsdp(config),
        "trees of sequences exclude a model with one output for each token",
        (0, 5, 2),
    ),
    EngineCheck(BY_LAYER, _steps_by_layer, "the step layer by layer takes the optimizer `adam` alone", (1, 0, 2)),
    EngineCheck(
        _PEFT,
        lambda config: (
            is_on(config, ADAPTER)
            and uses_fsdp(config)
            and bool(_word(config, _PEFT))
            and _word(config, _PEFT) != "lora"
        ),
        "the only adapter is `lora`",
        (0, 3, 4),
    ),
    EngineCheck(
        "actor.dtype",
        lambda config: _sees(config) and uses_fsdp(config) and _word(config, "actor.dtype") == "float16",
        "a model with a vision tower takes no float16",
        (0, 3, 1),
    ),
    EngineCheck(
        "actor.init_from_scratch",
        lambda config: _sees(config) and uses_fsdp(config) and is_on(config, "actor.init_from_scratch"),
        "a model with a vision tower needs its weights",
        (0, 3, 1),
    ),
    EngineCheck(
        ADAPTER,
        _has_adapter_under_a_launcher,
        "adapters need a scheduler (`python train.py scheduler.type=local`), not this launcher",
        (1, 0, 0),
        of_command=True,
    ),
    EngineCheck(
        _UPDATES,
        lambda config: (
            config.algorithm() == "rl"
            and bool(_word(config, _UPDATES))
            and _word(config, _UPDATES) not in ("disk", "xccl")
        ),
        "weights are sent by `disk` or `xccl`",
        (0, 5, 2),
    ),
    *(
        EngineCheck(
            f"{role}.scheduling_spec",
            lambda config, key=f"{role}.scheduling_spec": _is_no_pair(config, key),  # type: ignore[misc]
            "there have to be one or two specifications",
            (0, 5, 0),
        )
        for role in _TWO_SPECS
    ),
    EngineCheck(
        "actor.archon.fp8_config.use_triton",
        lambda config: (
            _word(config, "actor.archon.fp8_config.mode") == "blockwise"
            and as_bool(config.value("actor.archon.fp8_config.use_triton")) is False
        ),
        "fp8 in blocks needs Triton's kernels",
        (1, 0, 3),
    ),
    *(
        EngineCheck(
            f"actor.{name}.group_size",
            lambda config, name=f"actor.{name}": _has_no_group(config, name),  # type: ignore[misc]
            "the group has to be 1 or more",
            (0, 3, 4),
        )
        for name in ("reward_norm", "adv_norm")
    ),
)


def _is_no_pair(config: ArealConfig, key: str) -> bool:
    value = config.value(key)
    return isinstance(value, list) and len(value) not in (1, 2)


def _has_no_group(config: ArealConfig, section: str) -> bool:
    size = as_number(config.value(f"{section}.group_size"))
    levels = (_word(config, f"{section}.{name}_level") for name in ("mean", "std"))
    return size is not None and size < 1 and "group" in levels


def engine_checks(config: ArealConfig) -> Iterator[EngineCheck]:
    """The checks that the file fails."""
    return (one for one in CHECKS if config.release >= one.since and one.holds(config))
