"""A training loop of a script's own, without a trainer: `loss.backward()`, an optimizer, a `DataLoader`.

The loop is said in the Trainer's words: the batch of the `DataLoader`, the optimizer's class, the precision of autocast
or of accelerate. What the Trainer would set by default and a loop does not have is said as off; what the script does
not say is undetermined. A loop that trains no language model of transformers is no run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memlint._record import NamedTuple
from memlint.formats.trainer.python.encoders import Head, head_of, is_encoder, with_held_model
from memlint.formats.trainer.python.frozen import frozen_parts
from memlint.formats.trainer.python.fsdp_plugin import fsdp_of_plugin
from memlint.formats.trainer.python.lengths import lengths_of_sides, writes_targets
from memlint.formats.trainer.python.libraries import CONFIG_READ, TRAINING
from memlint.formats.trainer.python.lightning import fit_of, lightning_of
from memlint.formats.trainer.python.load_order import loads_before_engine
from memlint.formats.trainer.python.loop_batch import BATCH, batch_keys, engine_config, said_by_engine
from memlint.formats.trainer.python.model import (
    GIVES_MODEL,
    PREPARES_QUANTIZED,
    Keys,
    given_to,
    is_language_model,
    loads,
    model_keys,
    name_of_extension,
    origin_of,
    spreads_layers,
)
from memlint.formats.trainer.python.optimizers import is_optimizer_name, optimizer_keys
from memlint.formats.trainer.python.own_fsdp import is_within, own_fsdp
from memlint.formats.trainer.python.own_models import is_own_language_model, keys_of_own, own_models, own_module
from memlint.source.document import Span
from memlint.source.python.members import PARAMETERS
from memlint.source.python.methods import module_of
from memlint.source.python.values import (
    Either,
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

GENERATES = "generates and scores sequences in its loop"
_WRAPS_COPIES = ("DistributedDataParallel", "DDP")
_HOLDS_MODEL = frozenset({"get_peft_model", *GIVES_MODEL})  # what an optimizer or engine may get in place of parameters


class Loop(NamedTuple):
    """What was seen of a loop: its keys, where the model is loaded, and what the keys cannot say of it."""

    keys: Keys
    source: ValueSource
    unmodelled: str = ""
    model_state: str = ""  # `StartedProgram.model_state`
    prepares_quantized: bool = False  # the model goes through peft's prepare_model_for_kbit_training
    frozen: tuple[tuple[str, bool], ...] = ()  # `StartedProgram.frozen`
    engine: str = ""  # `StartedProgram.engine`
    whole_copies: bool = False  # `StartedProgram.whole_copies`
    loads_before_engine: bool = False  # `StartedProgram.loads_before_engine`
    spreads_layers: bool = False  # `StartedProgram.spreads_layers`
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
    trained = _trained(optimizers, engines, models) or _own_model(optimizers, models, seen)
    if trained is None:
        return None
    engines = [made for made in engines if _may_run(made, trained)]
    keys = _keys_of_model(trained, _others(optimizers, trained), seen)
    lightning = lightning_of(seen, _adapts(keys))
    keys.update(batch_keys(seen, engines, _loader_of(fit), text))
    if lightning is not None:
        keys.update(lightning.keys | _only_in_training(keys, trained))
    else:
        engine = _engine(seen, engines) or own_fsdp(seen, trained, _adapts(keys))
        keys.update(_precision(seen, engines, engine.get("fsdp")))
        keys.update(engine)
    keys.update(optimizer_keys(optimizers) if optimizers else {"optim": _of_deepspeed(engines)})
    keys.update(_lengths(seen, trained, lengths, text))
    if _generates(seen, text) and _IN_PARTS.search(text):
        keys[BATCH] = Undetermined("the loop trains on what it generates in parts that memlint does not see")
    found = _with_frozen_parts(Loop(keys, trained.source), seen, trained)
    unmodelled, model_state = _contents(seen, models, optimizers, trained, text)
    return found._replace(
        unmodelled=unmodelled,
        model_state=model_state,
        prepares_quantized=is_prepared(seen, trained),
        engine=_own_engine(seen, trained) if lightning is None else lightning.engine,
        whole_copies=_copies_whole(engines, trained) if lightning is None else lightning.whole_copies,
        loads_before_engine=fit is not None or loads_before_engine(trained, seen),
        spreads_layers=spreads_layers(trained),
        gpus=lightning.gpus if lightning is not None else 0,
        gpus_per_node=lightning.gpus_per_node if lightning is not None else 0,
    )


_OF_REWARDS = re.compile(r"(?:^|/)(?:rewards?|scorers?|judges?)(?:_(?:fns?|functions?|models?|utils))?\.py$")


def _rewards(model: Made) -> bool:
    """Whether a model scores what another writes: a module of rewards loads it."""
    return _OF_REWARDS.search(model.source.path) is not None


_IN_PARTS = re.compile(r"(?:mini|micro)_?batch", re.IGNORECASE)


_IN_SEVERAL_WAYS = "branches make the model in several ways"


def _keys_of_model(trained: Made, others: Sequence[Made], seen: list[Made]) -> Keys:
    """The keys of the model; where branches make it in several ways, what they agree in is known."""
    keys, *more = [_keys_of_one(one, seen) for one in (trained, *others)]
    names = dict.fromkeys(name for found in (keys, *more) for name in found) if more else ()
    unknown = Undetermined(_IN_SEVERAL_WAYS, trained.source)
    return keys | {name: either([one.get(name, unknown) for one in (keys, *more)], _IN_SEVERAL_WAYS) for name in names}


def _keys_of_one(model: Made, seen: list[Made]) -> Keys:
    keys = keys_of_own(model, seen) if is_own_language_model(model) else model_keys(model)
    keys.setdefault("gradient_checkpointing", Known(False, model.source))
    return keys


def _adapts(keys: Keys) -> bool:
    """Whether the loop may train adapters."""
    uses = keys.get("use_peft")
    return uses is not None and not (isinstance(uses, Known) and not uses.value)


def _may_run(engine: Made, trained: Made) -> bool:
    """Whether DeepSpeed may run the model that trains: not where it gets another, as one that only scores."""
    owners = [_owner(value) for value in _first(engine, "model")]
    origins = [origin_of(with_held_model(one)) for one in owners if one is not None]
    loaded = origin_of(trained)
    return not origins or any(one is loaded or not isinstance(one, Made) or not loads(one) for one in origins)


def _lengths(seen: list[Made], trained: Made, lengths: list[Value], text: str) -> Keys:
    generates = _generates(seen, text)
    sides = lengths_of_sides(seen) if writes_targets(trained) and not generates else {}
    return sides or {"max_length": _length(lengths, generates)}


def _with_frozen_parts(loop: Loop, seen: list[Made], trained: Made) -> Loop:
    """`loop` with the parts of its model that the script freezes."""
    if "use_peft" in loop.keys:
        return loop
    frozen = frozen_parts(seen, trained)
    head = _head(seen, trained)
    if not isinstance(frozen, Undetermined) and head is not None and head.may_freeze:
        frozen = Undetermined("the script's own module may keep its encoder from training", trained.source)
    if isinstance(frozen, Undetermined):
        return loop._replace(keys={**loop.keys, "use_peft": frozen})
    return loop._replace(frozen=frozen)


def _head(seen: list[Made], trained: Made) -> Head | None:
    """The head of the encoder that the loop trains; None where it trains no encoder."""
    loaded = origin_of(trained)
    return head_of(loaded, seen) if isinstance(loaded, Made) and is_encoder(loaded) else None


def _contents(
    seen: list[Made], models: list[Made], optimizers: list[Made], trained: Made, text: str
) -> tuple[str, str]:
    """What the keys cannot say of the loop, and what that leaves of its model's state."""
    loaded = origin_of(trained)
    extended = name_of_extension(loaded) if isinstance(loaded, Made) else ""
    head = _head(seen, trained)
    why = _unmodelled_contents(seen, models, optimizers, text)
    why = why or (f"loads `{extended}`, a class of the repository" if extended else "")
    return (why, "") if head is None else (why or head.unmodelled, "headless")


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
        if owner is not None and (_is_read(owner) or is_own_language_model(owner)):
            return with_held_model(owner)
    if any(isinstance(_owner(value), Made) for value in given):
        return None  # parameters of another model: of one that memlint does not read
    return models[0] if len(models) == 1 else None


def _others(optimizers: list[Made], trained: Made) -> list[Made]:
    """The models that the optimizer may get instead, as another branch makes them."""
    given = (value for made in optimizers for value in _first(made, "params", "parameters"))
    owners = next((found for found in map(_owners, given) if len(found) > 1), ())
    first, *others = [with_held_model(one) for one in owners] or [trained]
    return others if first.source == trained.source else []


def _is_read(model: Made) -> bool:
    """Whether a model of transformers that reads texts is this, or is below it."""
    origin = origin_of(with_held_model(model))
    return is_language_model(origin) or is_encoder(origin)


def _own_model(optimizers: list[Made], models: list[Made], seen: list[Made]) -> Made | None:
    """The only model of the repository, where no other is loaded whose parameters an optimizer could get. Of
    optimizers that get a part each, as Muon beside AdamW, nobody sees of what."""
    given = [_owner(value) for made in optimizers for value in _first(made, "params", "parameters")]
    found = own_models(seen) if not models and all(_is_layer(one) for one in given if one is not None) else []
    return found[0] if len(found) == 1 else None


def _is_layer(owner: Made) -> bool:
    """Whether parameters are those of one layer of torch: `model.lm_head.parameters()`."""
    return owner.name.startswith("torch.nn.") and owner.last not in _HOLDS_MODEL


def _first(made: Made, *names: str) -> Iterator[Value]:
    yield from made.positional[:1]
    yield from (made.arguments[name] for name in names if name in made.arguments)


def _owner(value: Value) -> Made | None:
    """The model of `model.parameters()`, of `filter(..., model.parameters())` and of groups of its parameters."""
    return next(iter(_owners(value)), None)


def _owners(value: Value, depth: int = 0) -> tuple[Made, ...]:
    """The model of which something is; several where branches make it in several ways."""
    if depth > 4:
        return ()
    if isinstance(value, Instance):
        module = module_of(value)
        return () if module is None else (module,)
    if isinstance(value, Either):
        each = [_owners(one, depth + 1) for one in value.values]
        found = dict.fromkeys(one for owners in each for one in owners) if all(each) else ()
        return tuple(sorted(found, key=lambda one: not _is_read(one)))
    if isinstance(value, Made):
        if value.last in PARAMETERS or value.name == PARAMETERS[0]:
            return _made_in_branches(value.base)
        if value.last in _HOLDS_MODEL and _is_read(value):
            return (value,)
        inner = (_owners(one, depth + 1) for one in value.positional)
        return next((one for one in inner if one), (value,) if _is_read(value) else ())
    parts: Iterable[Value] = ()
    if isinstance(value, Items):
        parts = value.values
    elif isinstance(value, Table):
        parts = (value.values["params"],) if "params" in value.values else ()
    return next((one for one in (_owners(part, depth + 1) for part in parts) if one), ())


def _made_in_branches(base: Value | None) -> tuple[Made, ...]:
    """The objects of an `Either` of models that memlint reads; the object alone where there is one."""
    if isinstance(base, Either):
        made = [one for one in base.values if isinstance(one, Made)]
        return tuple(made) if len(made) == len(base.values) and all(map(_is_read, made)) else ()
    return (base,) if isinstance(base, Made) else ()


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Known) and bool(value.value)


_MIXES = ("MixedPrecision", "MixedPrecisionPolicy")  # what FSDP computes in, of torch.distributed.fsdp


def _precision(seen: list[Made], engines: list[Made], sharding: Value | None) -> Keys:
    """`Accelerator(mixed_precision=...)`, else the dtype of autocast; off where there is neither. `sharding`: the key
    `fsdp`, of which the precision is not known either where it is not known how it shards.

    torch 2.13 amp/autocast_mode.py: autocast of CUDA computes in float16 unless told otherwise. An `Accelerator()` that
    is told nothing asks its launcher: then no key is said.
    """
    if isinstance(said_by_engine(engines, "bf16", "enabled") or said_by_engine(engines, "fp16", "enabled"), Known):
        return {name: said_by_engine(engines, name, "enabled") or Known(False) for name in ("bf16", "fp16")}
    accelerators = [made for made in seen if made.last == "Accelerator"]
    if accelerators:
        said = [made.arguments["mixed_precision"] for made in accelerators if "mixed_precision" in made.arguments]
        said = [one for one in said if not (isinstance(one, Known) and one.value is None)]
        return _as_switches(said[0]) if said else {}
    apex = [made for made in seen if made.last == "initialize" and made.name.startswith(("apex.", "amp."))]
    if apex:
        return _as_switches(_level(apex[0]))
    contexts = [made for made in seen if made.last == "autocast" and not _is_off(made.arguments.get("enabled"))]
    if not contexts and isinstance(sharding, Undetermined) and any(made.last in _MIXES for made in seen):
        return _as_switches(sharding)
    return _as_switches(_autocast(contexts)) if contexts else {"bf16": Known(False), "fp16": Known(False)}


def _level(apex: Made) -> Value:
    """O1, the default, computes in fp16 where that is safe, O0 in fp32; the others cast the weights (apex 0.1
    amp/frontend.py)."""
    level = apex.arguments.get("opt_level") or Known("O1", apex.source)
    word = {"O0": "no", "O1": "fp16"}.get(str(level.value)) if isinstance(level, Known) else None
    is_off = _is_off(apex.arguments.get("enabled"))
    if is_off or word:
        return Known("no" if is_off else word, apex.source)
    return Undetermined("apex casts the weights", apex.source)


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
    own = own_module(trained)
    holds = any(is_within(made, trained) or (own is not None and own_module(made) is own) for made in copies)
    return "ddp" if holds else ""


def _engine(seen: list[Made], engines: list[Made]) -> Keys:
    """DeepSpeed's configuration, or that of accelerate's plug-ins."""
    for made in engines:
        config = _without_optimizer(made) or engine_config(made)
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


def _has_whole_copies(engine: Made, trained: Made) -> bool:
    """Whether each GPU holds a copy of the model that trains: `mpu`, `mesh_param` and a PipelineModule divide it
    (deepspeed 0.19.8 __init__.py:537-590)."""
    given = (_owner(value) for value in _first(engine, "model"))
    divides = any(_is_given(engine, name) for name in ("mpu", "mesh_param")) or len(engine.positional) > _AT_MPU
    if divides or engine.is_open:
        return False
    return any(one is trained for one in given) or any(value is trained for value in engine.positional[1:2])


_AT_MPU = 7  # the position of `mpu` among the arguments of deepspeed.initialize


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
    name = said_by_engine(engines, "optimizer", "type")
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
