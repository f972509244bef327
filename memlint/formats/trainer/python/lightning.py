"""What Lightning's Trainer and Fabric are told: precision, engine, accumulation and GPUs, in the words of the Trainer.

lightning 2.6.2 pytorch/trainer/connectors/accelerator_connector.py, pytorch/strategies/, pytorch/plugins/precision/ and
fabric/connector.py; pytorch-lightning 1.9.5 and 1.2.10 the same, under the older names of strategies and precisions.
What is not said here has Lightning's default, which the release decides: then it is undetermined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint._record import NamedTuple
from memlint.formats.trainer.python.lightning_calls import CONFIG_TEXT, FITS, is_of_lightning
from memlint.formats.trainer.python.model import Keys
from memlint.formats.trainer.python.own_fsdp import NotSeenError, options_of_version_1
from memlint.source.python.values import (
    External,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    as_of_script,
    is_on,
    source_of,
)

_NOTHING = Known(None)
# fabric/connector.py:557, _convert_precision_to_unified_args; releases before 2.0 have the first names alone.
_PRECISIONS: Mapping[str, str] = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
_SWITCHES: Mapping[str, str] = {"16": "fp16", "bf16": "bf16"}
_DTYPES: Mapping[str, str] = {"16": "float16", "bf16": "bfloat16", "32": "float32"}
_COPIES = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook", "DDPStrategy", "DDPPlugin", "DDPSpawnStrategy")
_FSDP = ("fsdp", "fsdp_cpu_offload", "fsdp_native", "fsdp_native_full_shard_offload")
_ONE = ("auto", "single_device", "SingleDeviceStrategy")
# pytorch/strategies/deepspeed.py:67: what the strategy puts into DeepSpeed's configuration unless told otherwise.
_ZERO_DEFAULTS: Mapping[str, Value] = {
    "stage": Known(2),
    "contiguous_gradients": Known(True),
    "overlap_comm": Known(True),
    "allgather_partitions": Known(True),
    "reduce_scatter": Known(True),
    "allgather_bucket_size": Known(200_000_000),
    "reduce_bucket_size": Known(200_000_000),
    "sub_group_size": Known(1_000_000_000_000),
}
_DEVICES = {"offload_optimizer": "offload_optimizer_device", "offload_parameters": "offload_params_device"}
_SECTIONS = {"offload_optimizer": "offload_optimizer", "offload_parameters": "offload_param"}


class Lightning(NamedTuple):
    """`engine` and `whole_copies` as in `StartedProgram`; the processes that it trains in, over all machines and on
    one, 0 where that is not said."""

    keys: Keys
    engine: str = ""
    whole_copies: bool = False
    gpus: int = 0
    gpus_per_node: int = 0


def fit_of(seen: list[Made]) -> Made | None:
    """The first `trainer.fit(...)`, where there is one."""
    return next((made for made in seen if made.name == FITS), None)


def lightning_of(seen: list[Made], adapts: bool) -> Lightning | None:
    """What the Trainer of the script's `fit`, or its Fabric, is told; None without either. `adapts`: the script may
    train adapters."""
    fit = fit_of(seen)
    fabric = next((made for made in seen if is_of_lightning(made, "Fabric")), None)
    trainer = fit.base if fit is not None else fabric
    if not isinstance(trainer, Made):
        return None
    precision = _precision(trainer, seen)
    keys = _accumulation(trainer, seen) if fit is not None else {}
    strategy = _strategy(trainer)
    gpus, each = _processes(trainer)
    if isinstance(trainer.arguments.get("accelerator"), Known) and trainer.arguments["accelerator"] == Known("cpu"):
        return Lightning({**keys, "use_cpu": Known(True, trainer.source)})
    name = _name_of(strategy)
    if name.startswith("deepspeed") or name == "DeepSpeedStrategy":
        keys |= _deepspeed(strategy, name, precision, keys.get("gradient_accumulation_steps"))
        return Lightning(keys, "", True, gpus, each)
    if name in _FSDP or name == "FSDPStrategy":
        no_sync = Known(fit is None and any(made.last == "no_backward_sync" for made in seen))
        keys |= {**_of_precision(precision), **_fsdp(strategy, name, precision, adapts, no_sync)}
        return Lightning(keys, "", False, gpus, each)
    keys |= _of_precision(precision)
    if name.startswith(_COPIES):
        return Lightning(keys, "ddp", False, gpus, each)
    if name in _ONE or strategy is None:
        return Lightning(keys, ("ddp" if gpus > 1 else "single") if gpus else "", False, gpus, each)
    keys["fsdp"] = _unread(strategy, name)
    return Lightning(keys, "", False, gpus, each)


def _unread(strategy: Value, name: str) -> Undetermined:
    if isinstance(strategy, Undetermined):
        return strategy
    return Undetermined(f"Lightning's strategy `{name}` is not read" if name else "Lightning's strategy is not seen")


def _strategy(trainer: Made) -> Value | None:
    """`strategy=`; before 1.5 `accelerator=`, `distributed_backend=` or a plug-in by its name; None where none is
    said."""
    given = [trainer.arguments.get(name) for name in ("strategy", "distributed_backend", "accelerator", "plugins")]
    plugins = given[-1]
    given += list(plugins.values) if isinstance(plugins, Items) else []
    for value in given:
        if value is not None and value != _NOTHING and _bare(value) != _NOTHING and _is_strategy(value):
            return value
    return given[0] if given[0] is not None and _bare(given[0]) != _NOTHING else None


def _bare(value: Value) -> Value:
    return Known(value.value) if isinstance(value, Known) else value


def _is_strategy(value: Value) -> bool:
    name = _name_of(value)
    return name.startswith((*_COPIES, *_FSDP, "deepspeed", "dp", "horovod", "colossalai")) or name.endswith("Strategy")


def _name_of(strategy: Value | None) -> str:
    """`ddp`, or the class of a strategy's object."""
    if isinstance(strategy, Known) and isinstance(strategy.value, str):
        return strategy.value.lower()
    return strategy.last.removeprefix("Ray") if isinstance(strategy, Made) else ""  # ray 2.50 train/lightning


def _precision(trainer: Made, seen: list[Made]) -> Value:
    """`bf16-mixed`, under the names of 2.0 and later: 32 bits unless said."""
    given = trainer.arguments.get("precision") or Known(32, trainer.source)
    plugins = trainer.arguments.get("plugins")
    parts = plugins.values if isinstance(plugins, Items) else [plugins]
    if any(isinstance(one, Made) and "Precision" in one.last for one in parts):
        return Undetermined("a plug-in of Lightning says the precision", trainer.source)
    if trainer.arguments.get("amp_backend") == Known("apex"):
        return Undetermined("apex says the precision", trainer.source)
    if not isinstance(given, Known):
        return given if isinstance(given, Undetermined) else Undetermined("the precision is one of several")
    word = "32" if given.value is None else str(given.value)
    word = _PRECISIONS.get(word, word)
    is_read = word.partition("-")[0] in _DTYPES and word.partition("-")[2] in ("mixed", "true")
    return Known(word, given.source) if is_read else Undetermined(f"Lightning's precision `{word}` is not read")


def _of_precision(precision: Value) -> Keys:
    """autocast, or weights that are cast: `HalfPrecision` casts the whole module."""
    if not isinstance(precision, Known):
        return {"bf16": precision, "fp16": precision, "dtype": precision}
    kind, _, way = str(precision.value).partition("-")
    keys: Keys = {
        name: Known(way == "mixed" and _SWITCHES.get(kind) == name, precision.source) for name in ("bf16", "fp16")
    }
    if way == "true" and kind != "32":
        keys["dtype"] = Known(_DTYPES[kind], precision.source)
    return keys


def _accumulation(trainer: Made, seen: list[Made]) -> Keys:
    given = trainer.arguments.get("accumulate_grad_batches", _NOTHING)
    if _bare(given) == _NOTHING:
        given = Known(1, trainer.source)
    changes = any(made.last == "GradientAccumulationScheduler" for made in seen)
    if changes or not isinstance(given, (Known, Undetermined)):
        given = Undetermined("the accumulation changes from epoch to epoch", trainer.source)
    return {"gradient_accumulation_steps": given}


def _processes(trainer: Made) -> tuple[int, int]:
    """GPUs over all machines, and on each. `devices="auto"` and -1 take all that there are."""
    said = [trainer.arguments[name] for name in ("devices", "gpus") if name in trainer.arguments]
    said = [value for value in said if _bare(value) != _NOTHING]
    nodes = trainer.arguments.get("num_nodes", Known(1))
    each = _count(said[0]) if said else 0
    if not each or not isinstance(nodes, Known) or not isinstance(nodes.value, int):
        return 0, 0
    return each * nodes.value, each


def _count(devices: Value) -> int:
    """fabric/utilities/device_parser.py: a number, the numbers of devices, or text of either."""
    if isinstance(devices, Items):
        return 0 if devices.is_open else len(devices.values)
    value = devices.value if isinstance(devices, Known) and not isinstance(devices.value, bool) else None
    if isinstance(value, str) and "," in value:
        return len([one for one in value.split(",") if one.strip()])
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    return max(0, value) if isinstance(value, int) else 0


def _deepspeed(strategy: Value | None, name: str, precision: Value, accumulation: Value | None) -> Keys:
    """DeepSpeed's configuration as the strategy makes it, and the precision that it adds (_format_precision_config)."""
    config = _config_of(strategy, name)
    if not isinstance(config, Table) or not isinstance(precision, Known):
        reason = config if isinstance(config, Undetermined) else precision
        return {"deepspeed": reason, **({} if isinstance(precision, Known) else _of_precision(precision))}
    kind, _, way = str(precision.value).partition("-")
    switch = _SWITCHES.get(kind, "")
    if switch and switch not in config.values:
        config.values[switch] = Table({"enabled": Known(True)})
    config.values.setdefault("train_micro_batch_size_per_gpu", Known("auto"))
    if accumulation is not None:
        config.values["gradient_accumulation_steps"] = accumulation
    keys: Keys = {"deepspeed": config}
    for one in ("bf16", "fp16"):
        section = config.values.get(one)
        said = section.values.get("enabled") if isinstance(section, Table) else None
        keys[one] = Known(is_on(said), precision.source)
    if way == "true" and kind != "32":
        keys["dtype"] = Known(_DTYPES[kind], precision.source)
    return keys


def _config_of(strategy: Value | None, name: str) -> Table | Undetermined:
    """The configuration of a strategy by its name (`register_strategies`), or of its object."""
    if not isinstance(strategy, Made):
        stage = next((digit for digit in "123" if f"stage_{digit}" in name), "2")
        switches = {"offload_optimizer": "_offload", "offload_parameters": "3_offload"}
        said = {switch: Known(part in name) for switch, part in switches.items()}
        return _made_config({"stage": Known(int(stage)), **said}, "nvme" in name)
    given = strategy.arguments
    if strategy.is_open:
        return Undetermined("the strategy gets arguments that memlint does not see", strategy.source)
    if "config" not in given or _bare(given["config"]) == _NOTHING:
        return _made_config(given, False)
    config = given.get(CONFIG_TEXT) or given["config"]
    if isinstance(config, Table):
        return as_of_script(config)
    reason = f"`{config.value}`, which is not there" if isinstance(config, Known) else "DeepSpeed's configuration"
    return Undetermined(f"{reason}: Lightning's strategy reads it", source_of(config))


def _made_config(given: Mapping[str, Value], in_files: bool) -> Table | Undetermined:
    zero = {key: given.get(key, default) for key, default in _ZERO_DEFAULTS.items()}
    unknown = next((one for one in zero.values() if not isinstance(one, Known)), None)
    for switch, section in _SECTIONS.items():
        is_said = given.get(switch, Known(False))
        if not isinstance(is_said, Known):
            unknown = is_said
        elif is_said.value:
            device = given.get(_DEVICES[switch], Known("nvme" if in_files else "cpu"))
            zero[section] = Table({"device": device, "pin_memory": given.get("pin_memory", Known(False))})
    if unknown is not None:
        several = Undetermined("an argument of the strategy is one of several")
        return unknown if isinstance(unknown, Undetermined) else several
    return Table({"zero_optimization": Table(dict(zero)), "zero_allow_untested_optimizer": Known(True)})


def _fsdp(strategy: Value | None, name: str, precision: Value, adapts: bool, no_sync: Known) -> Keys:
    """FSDP of torch as the strategy wraps the module: in one unit unless a policy is given, with original parameters
    (pytorch/strategies/fsdp.py:134; 1.9 has flat ones)."""
    given = dict(strategy.arguments) if isinstance(strategy, Made) else {}
    if "offload" in name:
        given["cpu_offload"] = Known(True)
    checkpoints = [given.pop(key, _NOTHING) for key in ("activation_checkpointing_policy", "activation_checkpointing")]
    try:
        if adapts or not isinstance(precision, Known) or (isinstance(strategy, Made) and strategy.is_open):
            raise NotSeenError("what wraps its adapters" if adapts else "with which arguments")
        options = options_of_version_1(Made("FSDP", (), dict(_of_torch(given)), source_of(strategy or _NOTHING)))
    except NotSeenError as error:
        return {"fsdp": Undetermined(f"Lightning wraps the model with FSDP, and {error} is not seen")}
    kind = str(precision.value).partition("-")[0]
    options |= {name: Known(_DTYPES[kind]) for name in ("param_dtype", "reduce_dtype") if name not in options}
    options |= {"use_orig_params": Known("native" not in name), "no_sync": no_sync}
    keys: Keys = {"fsdp": Known(True), "fsdp_config": Table(dict(options))}
    if any(_bare(one) != _NOTHING for one in checkpoints):
        keys["gradient_checkpointing"] = Known(True, source_of(checkpoints[0]))
    return keys


_OF_LIGHTNING = ("state_dict_type", "timeout", "process_group_backend", "use_orig_params")  # change no memory here


def _of_torch(given: Mapping[str, Value]) -> Iterator[tuple[str, Value]]:
    """The strategy's arguments as FullyShardedDataParallel gets them."""
    for name, value in given.items():
        if name in _OF_LIGHTNING:
            continue
        if name == "sharding_strategy" and isinstance(value, Known) and isinstance(value.value, str):
            yield name, External(f"ShardingStrategy.{value.value.upper()}")
        elif name == "cpu_offload" and isinstance(value, Known):
            yield name, Made("CPUOffload", (), {"offload_params": Known(bool(value.value))})
        elif name == "auto_wrap_policy" and isinstance(value, Items):
            yield name, Made("ModuleWrapPolicy", (value,))
        else:
            yield name, value
