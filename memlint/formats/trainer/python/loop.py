"""A training loop of a script's own, without a trainer: `loss.backward()`, an optimizer, a `DataLoader`.

The loop is said in the Trainer's words: the batch of the `DataLoader`, the optimizer's class, the precision of autocast
or of accelerate. What the Trainer would set by default and a loop does not have is said as off; what the script does
not say is undetermined. A loop that trains no language model of transformers is no run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from memlint._record import NamedTuple
from memlint.formats.trainer.python.frozen import frozen_parts
from memlint.formats.trainer.python.fsdp_plugin import fsdp_of_plugin
from memlint.formats.trainer.python.lengths import lengths_of_sides, writes_targets
from memlint.formats.trainer.python.libraries import CONFIG_READ, TRAINING
from memlint.formats.trainer.python.lightning import fit_of, lightning_of
from memlint.formats.trainer.python.load_order import loads_before_engine
from memlint.formats.trainer.python.model import (
    GIVES_MODEL,
    PREPARES_QUANTIZED,
    Keys,
    given_to,
    is_language_model,
    is_own_language_model,
    keys_of_own,
    model_keys,
    name_of_extension,
    origin_of,
)
from memlint.formats.trainer.python.optimizers import is_optimizer_name, optimizer_keys
from memlint.formats.trainer.python.own_fsdp import is_within, own_fsdp
from memlint.source.document import Span
from memlint.source.python.members import PARAMETERS
from memlint.source.python.rounds import EVERY
from memlint.source.python.standard_library import OPTIONS
from memlint.source.python.values import (
    External,
    Instance,
    Items,
    Known,
    Made,
    Table,
    Undetermined,
    Value,
    ValueSource,
    alternatives,
    as_of_script,
    either,
    is_on,
    source_of,
)

_BATCH, _ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
GENERATES = "generates and scores sequences in its loop"
_WRAPS_COPIES = ("DistributedDataParallel", "DDP")
_HOLDS_MODEL = frozenset({"get_peft_model", *GIVES_MODEL})  # what an optimizer or engine may get in place of parameters
_ACCUMULATION_NAMES = (
    *("gradient_accumulation_steps", "grad_accum_steps", "accumulation_steps", "grad_accum"),
    *("gradient_accumulation", "grad_accumulation_steps", "accum_steps", "grad_acc_steps"),
)
_BATCH_NAMES = (
    *("per_device_train_batch_size", "micro_batch_size", "train_micro_batch_size", "per_gpu_train_batch_size"),
    *("per_device_batch_size", "device_batch_size", "batch_size_per_device", "batch_size_per_gpu"),
)


class Loop(NamedTuple):
    """What was seen of a loop: its keys, where the model is loaded, and what the keys cannot say of it."""

    keys: Keys
    source: ValueSource
    unmodelled: str = ""
    prepares_quantized: bool = False  # the model goes through peft's prepare_model_for_kbit_training
    frozen: tuple[tuple[str, bool], ...] = ()  # `StartedProgram.frozen`
    engine: str = ""  # `StartedProgram.engine`
    whole_copies: bool = False  # `StartedProgram.whole_copies`
    loads_before_engine: bool = False  # `StartedProgram.loads_before_engine`
    gpus: int = 0  # `PythonRun.gpus`
    gpus_per_node: int = 0


def loop_of(seen: list[Made], lengths: list[Value], text: str) -> Loop | None:
    """The loop that a script runs; None where it runs none, or trains no language model that memlint reads."""
    fit = fit_of(seen)
    if fit is None and not {"backward", "step"} <= {made.last for made in seen}:
        return None
    optimizers = [made for made in seen if is_optimizer_name(made.last)]
    engines = [made for made in seen if made.name == "deepspeed.initialize"]
    models = list(_distinct(made for made in seen if is_language_model(made) and not _rewards(made)))
    if not (optimizers or engines):
        return None
    trained = _trained(optimizers, engines, models)
    if trained is None:
        return None
    keys = keys_of_own(trained) if is_own_language_model(trained) else model_keys(trained)
    keys.setdefault("gradient_checkpointing", Known(False, trained.source))
    keys.update(_batch(seen, engines, _loader_of(fit)))
    lightning = lightning_of(seen, "use_peft" in keys)
    if lightning is not None:
        keys.update(lightning.keys | _only_in_training(keys, trained))
    else:
        keys.update(_precision(seen, engines))
        keys.update(_engine(seen, engines) or own_fsdp(seen, trained, "use_peft" in keys))
    keys.update(optimizer_keys(optimizers) if optimizers else {"optim": _of_deepspeed(engines)})
    generates = _generates(seen, text)
    sides = lengths_of_sides(seen) if writes_targets(trained) and not generates else {}
    keys.update(sides or {"max_length": _length(lengths, generates)})
    frozen = frozen_parts(seen, trained) if "use_peft" not in keys else ()
    if isinstance(frozen, Undetermined):
        keys["use_peft"], frozen = frozen, ()
    loaded = origin_of(trained)
    extended = name_of_extension(loaded) if isinstance(loaded, Made) else ""
    return Loop(
        keys,
        trained.source,
        unmodelled=_unmodelled_contents(seen, models, optimizers, text)
        or (f"loads `{extended}`, a class of the repository" if extended else ""),
        prepares_quantized=is_prepared(seen, trained),
        frozen=frozen,
        engine=_own_engine(seen, trained) if lightning is None else lightning.engine,
        whole_copies=_copies_whole(engines, trained) if lightning is None else lightning.whole_copies,
        loads_before_engine=fit is not None or loads_before_engine(trained, seen),
        gpus=lightning.gpus if lightning is not None else 0,
        gpus_per_node=lightning.gpus_per_node if lightning is not None else 0,
    )


_OF_REWARDS = re.compile(r"(?:^|/)(?:rewards?|scorers?|judges?)(?:_(?:fns?|functions?|models?|utils))?\.py$")


def _rewards(model: Made) -> bool:
    """Whether a model scores what another writes: a module of rewards loads it."""
    return _OF_REWARDS.search(model.source.path) is not None


def _copies_whole(engines: list[Made], trained: Made) -> bool:
    return bool(engines) and all(_has_whole_copies(made, trained) for made in engines)


_NOT_TRAINING = (
    "Lightning from 2.2 on leaves the model in evaluation mode, in which transformers checkpoints nothing, unless the "
    "script calls its `train`"
)


def _only_in_training(keys: Keys, trained: Made) -> Keys:
    """Checkpointing of transformers' own, which works in training mode alone (lightning 2.2 CHANGELOG: `fit` no longer
    calls `train`; transformers 5.23 modeling_layers.py, GradientCheckpointingLayer)."""
    if not is_on(keys["gradient_checkpointing"]) or TRAINING in trained.attributes:
        return {}
    return {"gradient_checkpointing": Undetermined(_NOT_TRAINING, source_of(keys["gradient_checkpointing"]))}


def _loader_of(fit: Made | None) -> Made | None:
    """The loader that Lightning's Trainer gets or asks for."""
    given = fit.arguments.get("loader") if fit is not None else None
    return given if isinstance(given, Made) and given.last == "DataLoader" else None


def _length(lengths: list[Value], generates: bool) -> Value:
    """The length to which samples are tokenized. Where the loop trains on what it generates, that is the prompt
    alone."""
    if generates:
        return Undetermined("what is generated is added to what is tokenized")
    return either(lengths, "several lengths are tokenized to") if lengths else Undetermined("the script decides")


def is_prepared(seen: list[Made], model: Value) -> bool:
    """Whether the script gives `model` to peft's prepare_model_for_kbit_training, which changes it in place."""
    origins = [origin_of(one) for one in alternatives(model)]
    calls = (made for made in seen if made.last in PREPARES_QUANTIZED)
    return any(origin is one for made in calls for origin in map(origin_of, given_to(made)) for one in origins)


def _distinct(made: Iterable[Made]) -> Iterator[Made]:
    found: set[Span | None] = set()
    for one in made:
        if one.source.span not in found:
            found.add(one.source.span)
            yield one


def _trained(optimizers: list[Made], engines: list[Made], models: list[Made]) -> Made | None:
    """The model whose parameters the optimizer gets; the only one that is loaded, where that is not seen."""
    given = [one for made in optimizers for one in _first(made, "params", "parameters")]
    given += [one for made in engines for one in _first(made, "model")]
    for value in given:
        owner = _owner(value)
        if owner is not None and (is_language_model(origin_of(owner)) or is_own_language_model(owner)):
            return owner
    if any(isinstance(_owner(value), Made) for value in given):
        return None  # parameters of another model: of one that memlint does not read
    return models[0] if len(models) == 1 else None


def _first(made: Made, *names: str) -> Iterator[Value]:
    yield from made.positional[:1]
    yield from (made.arguments[name] for name in names if name in made.arguments)


def _owner(value: Value, depth: int = 0) -> Made | None:
    """The model of `model.parameters()`, of `filter(..., model.parameters())` and of groups of its parameters."""
    if depth > 4:
        return None
    if isinstance(value, Made):
        if value.last in PARAMETERS or value.name == PARAMETERS[0]:
            return value.base if isinstance(value.base, Made) else None
        if value.last in _HOLDS_MODEL and is_language_model(origin_of(value)):
            return value
        inner = [_owner(one, depth + 1) for one in value.positional]
        return next((one for one in inner if one is not None), value if is_language_model(origin_of(value)) else None)
    parts: Iterable[Value] = ()
    if isinstance(value, Items):
        parts = value.values
    elif isinstance(value, Table):
        parts = (value.values["params"],) if "params" in value.values else ()
    found = (_owner(one, depth + 1) for one in parts)
    return next((one for one in found if one is not None), None)


def _batch(seen: list[Made], engines: list[Made], loader: Made | None = None) -> Keys:
    """The batch of `loader`, of the one that shuffles, else of the first; a parsed option of that name where there is
    none."""
    loaders = (
        [loader]
        if loader is not None
        else [made for made in seen if made.last == "DataLoader" and "sampler" not in made.name.lower()]
    )
    shuffled = [made for made in loaders if _is_true(made.arguments.get("shuffle")) or "sampler" in made.arguments]
    found: Value | None = None
    if loaders:
        first = (shuffled or loaders)[0]
        given = first.positional[1] if len(first.positional) > 1 else first.arguments.get("batch_size")
        found = _of_whole_batches(first, given) or (
            Undetermined("the loader gets no batch size") if first.is_open or first.arguments else Known(1)
        )
    of_engine = _said_by_engine(engines, "train_micro_batch_size_per_gpu")
    if isinstance(of_engine, Known) and not isinstance(found, Known):
        found = of_engine  # `batch_size=engine.train_micro_batch_size_per_gpu()`
    found = found or of_engine or _named(seen, _BATCH_NAMES) or _passed(seen)
    found = found or Undetermined("the loop has no loader that memlint sees")
    accumulation = next(
        (
            made.arguments[_ACCUMULATION]
            for made in seen
            if made.last == "Accelerator" and _ACCUMULATION in made.arguments
        ),
        None,
    )
    accumulation = accumulation or _said_by_engine(engines, "gradient_accumulation_steps") or _rounds(seen)
    if accumulation is None or isinstance(accumulation, Undetermined):
        accumulation = _named(seen, _ACCUMULATION_NAMES) or accumulation
    return {_BATCH: _whole(found), _ACCUMULATION: accumulation or Known(1)}


def _of_whole_batches(loader: Made, given: Value | None) -> Value | None:
    """`batch_size=None` leaves batches to the data set, whose objects have the size under that name (torch 2.13
    utils/data/dataloader.py: "automatic batching is disabled")."""
    (dataset,) = loader.positional[:1] or (loader.arguments.get("dataset"),)
    if not (isinstance(given, Known) and given.value is None and isinstance(dataset, Instance)):
        return given
    return dataset.attributes.get("batch_size") or Undetermined("the data set makes the batches", loader.source)


_STEPS = re.compile(r"(?:^| )(?!\w*(?:sched|lr|prof))\w*\.step(?= |$)")


def _rounds(seen: list[Made]) -> Value | None:
    """4 where the loop steps in every fourth round alone: `if (step + 1) % 4 == 0: optimizer.step()`."""
    for made in seen:
        calls = made.arguments.get("calls") if made.name == EVERY else None
        if isinstance(calls, Known) and _STEPS.search(str(calls.value)) and ".backward" not in str(calls.value):
            rounds = made.arguments["rounds"]
            is_whole = isinstance(rounds, Known) and isinstance(rounds.value, int) and rounds.value > 0
            return rounds if is_whole else Undetermined("how many rounds are between two steps", source_of(rounds))
    return None


def _passed(seen: list[Made]) -> Value | None:
    """The `batch_size` that a loader of the script's own is given, else that of the command line."""
    calls = [made.arguments["batch_size"] for made in seen if made.name != OPTIONS and "batch_size" in made.arguments]
    numbers = [one for one in calls if isinstance(one, Known) and isinstance(one.value, int)]
    return either(list(numbers), "loaders of several sizes") if numbers else _named(seen, ("batch_size",))


def _whole(value: Value) -> Value:
    """A batch size; text or a fraction is none."""
    if isinstance(value, Known) and not (isinstance(value.value, int) and not isinstance(value.value, bool)):
        return Undetermined("the batch size is no number", value.source)
    return value if isinstance(value, (Known, Undetermined)) else Undetermined("the script computes it")


def _named(seen: list[Made], names: tuple[str, ...]) -> Value | None:
    """The value that the command line gives under one of these names."""
    for made in seen:
        for name in names if made.name == OPTIONS else ():
            value = made.arguments.get(name)
            if isinstance(value, Undetermined) or (isinstance(value, Known) and isinstance(value.value, int)):
                return value
    return None


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Known) and bool(value.value)


def _precision(seen: list[Made], engines: list[Made]) -> Keys:
    """`Accelerator(mixed_precision=...)`, else the dtype of autocast; off where there is neither.

    torch 2.13 amp/autocast_mode.py: autocast of CUDA computes in float16 unless told otherwise. An `Accelerator()` that
    is told nothing asks its launcher: then no key is said.
    """
    if isinstance(_said_by_engine(engines, "bf16", "enabled") or _said_by_engine(engines, "fp16", "enabled"), Known):
        return {name: _said_by_engine(engines, name, "enabled") or Known(False) for name in ("bf16", "fp16")}
    accelerators = [made for made in seen if made.last == "Accelerator"]
    if accelerators:
        said = [made.arguments["mixed_precision"] for made in accelerators if "mixed_precision" in made.arguments]
        said = [one for one in said if not (isinstance(one, Known) and one.value is None)]
        return _as_switches(said[0]) if said else {}
    contexts = [made for made in seen if made.last == "autocast" and not _is_off(made.arguments.get("enabled"))]
    return _as_switches(_autocast(contexts)) if contexts else {"bf16": Known(False), "fp16": Known(False)}


def _is_off(value: Value | None) -> bool:
    return isinstance(value, Known) and value.value is False


def _autocast(contexts: list[Made]) -> Value:
    kinds: list[Value] = []
    for one in contexts:
        dtype = one.arguments.get("dtype") or next((v for v in one.positional if isinstance(v, External)), None)
        word = (
            {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}.get(dtype.last, "")
            if isinstance(dtype, External)
            else "fp16"
            if dtype is None
            else ""
        )
        enabled = one.arguments.get("enabled")
        unsure = one.is_open or (enabled is not None and not _is_true(enabled))
        kinds.append(Undetermined("autocast's dtype") if not word or unsure else Known(word, one.source))
    return either(kinds, "several dtypes of autocast")


def _as_switches(precision: Value) -> Keys:
    """accelerate's word as the Trainer's two switches."""
    if isinstance(precision, Known) and precision.value in ("bf16", "fp16", "no"):
        return {name: Known(precision.value == name, precision.source) for name in ("bf16", "fp16")}
    reason = precision if isinstance(precision, Undetermined) else Undetermined("the precision is not known")
    return {"bf16": reason, "fp16": reason}


def _own_engine(seen: list[Made], trained: Made) -> str:
    """What copies the model to several GPUs: DistributedDataParallel, or nothing; "" where a condition decides, or a
    library may do it, whose launcher decides (accelerate, DeepSpeed, Lightning, Ray)."""
    names = {made.last for made in seen}
    if names & {"Accelerator", "initialize", "Fabric", "DataParallel", "prepare_model", "TorchTrainer", "parallelize"}:
        return ""
    copies = [made for made in seen if made.last in _WRAPS_COPIES]
    if not copies:
        return "single"
    return "ddp" if any(is_within(made, trained) for made in copies) else ""


def _engine(seen: list[Made], engines: list[Made]) -> Keys:
    """DeepSpeed's configuration, or that of accelerate's plug-ins."""
    for made in engines:
        config = _without_optimizer(made) or _config_of(made)
        if isinstance(config, (Table, Known)):
            return {"deepspeed": config}
        return {"deepspeed": Undetermined("DeepSpeed's configuration is not one that memlint sees", made.source)}
    plugins = [keys for keys in map(_plugin, (made for made in seen if made.last == "Accelerator")) if keys]
    if plugins:
        return plugins[0]
    return {}


def _without_optimizer(engine: Made) -> Table | None:
    """The configuration of a file that names an optimizer, where the engine gets another, which goes before it
    (deepspeed 0.19.8 runtime/engine.py, _configure_optimizer)."""
    read = engine.arguments.get(CONFIG_READ)
    gets_one = _is_given(engine, "optimizer") or len(engine.positional) > _AT_OPTIMIZER
    if not gets_one or not isinstance(read, Table) or "optimizer" not in read.values:
        return None
    copy = as_of_script(read)
    del copy.values["optimizer"]
    return copy


_AT_OPTIMIZER = 2  # the position of `optimizer` among the arguments of deepspeed.initialize


def _config_of(engine: Made) -> Value | None:
    """The configuration that `deepspeed.initialize` gets."""
    return engine.arguments.get("config") or engine.arguments.get("config_params")


def _has_whole_copies(engine: Made, trained: Made) -> bool:
    """Whether each GPU holds a copy of the model that trains: `mpu`, `mesh_param` and a PipelineModule divide it
    (deepspeed 0.19.8 __init__.py:537-590)."""
    given = (_owner(value) for value in _first(engine, "model"))
    divides = any(_is_given(engine, name) for name in ("mpu", "mesh_param")) or len(engine.positional) > _AT_MPU
    if divides or engine.is_open:
        return False
    return any(one is trained for one in given) or any(value is trained for value in engine.positional[1:2])


_AT_MPU = 7  # the position of `mpu` among the arguments of deepspeed.initialize


def _said_by_engine(engines: list[Made], *names: str) -> Value | None:
    """What DeepSpeed's configuration in the script says at a path; None where it says nothing."""
    for made in engines:
        value = made.arguments.get(CONFIG_READ) or _config_of(made)
        for name in names:
            value = value.values.get(name) if isinstance(value, Table) else None
        if value is not None:
            # what a file says stays there: the arguments are the script's
            return Known(value.value) if isinstance(value, Known) and value.source.how == "config" else value
    return None


def _plugin(accelerator: Made) -> Keys:
    """The engine of `Accelerator(deepspeed_plugin=...)`, `Accelerator(fsdp_plugin=...)`; nothing where the launcher
    decides."""
    if _is_given(accelerator, "fsdp_plugin"):
        return fsdp_of_plugin(accelerator.arguments["fsdp_plugin"], accelerator)
    if _is_given(accelerator, "megatron_lm_plugin"):
        return {"fsdp": Undetermined("the script trains with Megatron-LM", accelerator.source)}
    if not _is_given(accelerator, "deepspeed_plugin"):
        return {}
    return {"deepspeed": _deepspeed_plugin(accelerator.arguments["deepspeed_plugin"], accelerator)}


def _is_given(made: Made, name: str) -> bool:
    value = made.arguments.get(name)
    return value is not None and not (isinstance(value, Known) and value.value is None)


# accelerate 1.15.0 utils/dataclasses.py, DeepSpeedPlugin.__post_init__: where an argument goes; others change nothing.
_PLUGIN_PATHS: Mapping[str, tuple[str, ...]] = {
    "zero_stage": ("zero_optimization", "stage"),
    "offload_optimizer_device": ("zero_optimization", "offload_optimizer", "device"),
    "offload_param_device": ("zero_optimization", "offload_param", "device"),
    "gradient_accumulation_steps": ("gradient_accumulation_steps",),
}
_WITHOUT_EFFECT = frozenset({"gradient_clipping", "zero3_save_16bit_model", "zero3_init_flag", "is_train_batch_min"})


def _deepspeed_plugin(plugin: Value, accelerator: Made) -> Value:
    """`DeepSpeedPlugin(hf_ds_config=...)`, `DeepSpeedPlugin(zero_stage=2, ...)` as DeepSpeed's configuration."""
    unread = Undetermined("DeepSpeed's plug-in is not one that memlint sees", accelerator.source)
    if not isinstance(plugin, Made) or plugin.last != "DeepSpeedPlugin" or plugin.is_open or plugin.positional:
        return unread
    config = plugin.arguments.get("hf_ds_config")
    if config is not None:
        return config if isinstance(config, (Known, Table)) else unread
    if not plugin.arguments.keys() <= _PLUGIN_PATHS.keys() | _WITHOUT_EFFECT or "zero_stage" not in plugin.arguments:
        return unread
    found = Table({"train_micro_batch_size_per_gpu": Known("auto")}, plugin.source)
    for name, path in _PLUGIN_PATHS.items():
        value = plugin.arguments.get(name)
        if value is not None:
            _put(found, path, value)
    return found


def _put(into: Table, path: tuple[str, ...], value: Value) -> None:
    for name in path[:-1]:
        inner = into.values.setdefault(name, Table({}, into.source))
        assert isinstance(inner, Table)  # made here
        into = inner
    into.values[path[-1]] = value


# DeepSpeed's names of optimizers (deepspeed 0.19 runtime/engine.py, _configure_basic_optimizer).
_DEEPSPEED_OPTIMIZERS: Mapping[str, str] = {**dict.fromkeys(("adam", "adamw", "fusedadam"), "adamw_torch")}


def _of_deepspeed(engines: list[Made]) -> Value:
    """The optimizer that DeepSpeed makes."""
    name = _said_by_engine(engines, "optimizer", "type")
    word = _DEEPSPEED_OPTIMIZERS.get(str(name.value).lower()) if isinstance(name, Known) else None
    return Undetermined("DeepSpeed makes it") if word is None else Known(word, source_of(name or Known(None)))


_REINFORCES = re.compile(r"reward|advantage|rollout", re.IGNORECASE)


def _generates(seen: list[Made], text: str) -> bool:
    """Whether the loop trains on sequences that its model has written."""
    return any(made.last == "generate" for made in seen) and _REINFORCES.search(text) is not None


def _unmodelled_contents(seen: list[Made], models: list[Made], optimizers: list[Made], text: str) -> str:
    """What else the script keeps on the card besides the model that it trains; "" where nothing is seen."""
    if _generates(seen, text):
        return GENERATES
    if len(models) > 1:
        return "loads several models"
    own = any(made.name in ("torch.nn.Module", "nn.Module") for made in seen)
    parameters = [_owner(value) for made in optimizers for value in _first(made, "params")]
    if own and not any(one is not None for one in parameters):
        return "trains a module of its own"
    return "has several optimizers" if len({id(one) for one in parameters if one is not None}) > 1 else ""
