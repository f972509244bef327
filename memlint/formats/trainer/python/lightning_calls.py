"""Calls of Lightning: what its Trainer calls of a module and its data, and where a module keeps its hyperparameters.

    trainer = Trainer(devices=4, strategy="deepspeed_stage_2", precision="bf16-mixed")
    trainer.fit(module, datamodule=data)

The hooks of both are followed in the order in which the Trainer calls them, so that the model, the optimizer and the
loader that they make are seen (lightning 2.6.2 pytorch/trainer/trainer.py, _run; pytorch-lightning 1.9.5 the same).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memlint.source.python.calls import apply, follow
from memlint.source.python.config_files import value_of_document
from memlint.source.python.members import attribute
from memlint.source.python.reader import Call, Library, Reader
from memlint.source.python.standard_library import LIBRARIES as STANDARD_LIBRARY
from memlint.source.python.values import (
    Class,
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

FITS = "Lightning's Trainer fits"  # the name of what is observed: `model`, `loader`, `optimizers`; `base`: the trainer
CONFIG_TEXT = "what the strategy's file says"  # argument of a DeepSpeedStrategy whose configuration is a file
_PACKAGES = ("pytorch_lightning", "lightning", "lightning_fabric", "lightning_pytorch")
# Arguments of the Trainer that decide about memory, in any release: flags of `Trainer.add_argparse_args`, which 2.0
# removed (pytorch-lightning 1.2.10 and 1.9.5 trainer/trainer.py, utilities/argparse.py).
_FLAGS = (
    *("gpus", "devices", "num_nodes", "accelerator", "strategy", "distributed_backend", "plugins", "precision"),
    *("accumulate_grad_batches", "amp_backend", "amp_level"),
)
_WHOLE_NUMBERS = ("num_nodes", "accumulate_grad_batches")


def is_of_lightning(made: Value | None, *names: str) -> bool:
    """Whether a class of Lightning of one of these names made it."""
    return isinstance(made, Made) and made.last in names and made.name.partition(".")[0] in _PACKAGES


def _fit(reader: Reader, given: Call) -> Value | None:
    """`trainer.fit(module, loaders)` or `trainer.fit(module, datamodule=data)`."""
    if not is_of_lightning(given.owner, "Trainer"):
        return None
    module = _object(given.argument(0, "model"))
    loader = given.argument(1, "train_dataloaders") or given.named.get("train_dataloader")
    data = _object(given.named.get("datamodule")) or _object(loader)
    if isinstance(module, Instance):
        module.attributes["trainer"] = given.owner or Known(None)
    loaded = _prepared(reader, data, module, given)
    optimizers = _hook(reader, module, "configure_optimizers", given)
    if loaded is None and data is None:
        loaded = loader or _hook(reader, module, "train_dataloader", given)
    named: dict[str, Value] = {"model": module or Undetermined("the module is not one that memlint sees", given.source)}
    named |= {} if loaded is None else {"loader": loaded}
    named |= {} if optimizers is None else {"optimizers": optimizers}
    reader.observe(Made(FITS, (), named, given.source, given.owner))
    return Known(None)


def _object(value: Value | None) -> Instance | None:
    """The object of the repository's class; of several ways to make one the first."""
    found = (one for one in alternatives(value) if isinstance(one, Instance)) if value is not None else iter(())
    return next(found, None)


def _prepared(reader: Reader, data: Instance | None, module: Instance | None, given: Call) -> Value | None:
    """Follows what is called before the optimizers are made, and returns the loader of a data module."""
    stage = Known("fit", given.source)
    for owner in (data, module):
        _hook(reader, owner, "prepare_data", given)
    for owner in (data, module):
        _hook(reader, owner, "setup", given, stage)
    for name in ("configure_sharded_model", "configure_model"):
        _hook(reader, module, name, given)
    return _hook(reader, data, "train_dataloader", given)


def _hook(reader: Reader, owner: Instance | None, name: str, given: Call, *arguments: Value) -> Value | None:
    """What a method of the repository returns; None where it has none of that name."""
    found = attribute(owner, name) if owner is not None else None
    if not isinstance(found, PythonFunction):
        return None
    return follow(reader, found, Call("", arguments, {}, given.source))


def _adds_flags(reader: Reader, given: Call) -> Value | None:
    """`Trainer.add_argparse_args(parser)` adds a flag for each of the Trainer's arguments, and gives back a parser."""
    parser = given.argument(0, "parent_parser")
    if not given.name.startswith(_PACKAGES) or not isinstance(parser, Made):
        return None
    add = STANDARD_LIBRARY[".add_argument"]
    for name in _FLAGS:
        kind = {"type": External("int")} if name in _WHOLE_NUMBERS else {}
        add(reader, Call("", (Known(f"--{name}"),), kind, given.source, owner=parser))
    return parser


def _of_flags(reader: Reader, given: Call) -> Value | None:
    """`Trainer.from_argparse_args(args, callbacks=...)`: the flags that are given, under the call's own arguments."""
    args = given.argument(0, "args")
    if not given.name.startswith(_PACKAGES):
        return None
    said = args.values if isinstance(args, Table) else args.attributes if isinstance(args, Instance) else {}
    flags = {name: said[name] for name in _FLAGS if name in said and not _is_none(said[name])}
    is_open = given.is_open or not isinstance(args, (Table, Instance))
    made = Made(given.name.rpartition(".")[0], (), {**flags, **given.named}, given.source, None, is_open)
    reader.made(made)
    reader.observe(made)
    return made


def _is_none(value: Value) -> bool:
    return isinstance(value, Known) and value.value is None


def _keeps_hyperparameters(reader: Reader, given: Call) -> Value | None:
    """`self.save_hyperparameters()` keeps the arguments of `__init__` in `self.hparams`: all of them, those that are
    named, or what is in the one that is given (lightning 2.6.2 pytorch/utilities/parsing.py, save_hyperparameters)."""
    if not isinstance(given.owner, Instance) or not reader.parameters:
        return None
    names = [one.value for one in given.positional if isinstance(one, Known) and isinstance(one.value, str)]
    whole = given.positional[0] if given.positional and not names else None
    kept = whole if whole is not None else Table(dict(_arguments_of(reader.parameters[-1], names)), given.source)
    (given.owner.behind or given.owner).attributes["hparams"] = kept
    return Known(None)


def _arguments_of(parameters: Mapping[str, Value], names: Collection[str]) -> Mapping[str, Value]:
    """The parameters of a function, with those of `**kwargs` among them. `names`: those that are wanted, if not all."""
    found = {name: value for name, value in parameters.items() if name != "self"}
    for name in [name for name, value in found.items() if isinstance(value, Table) and name.endswith("args")]:
        inner = found.pop(name)
        found |= {str(key): value for key, value in inner.values.items()} if isinstance(inner, Table) else {}
    return {name: value for name, value in found.items() if not names or name in names}


def _from_checkpoint(reader: Reader, given: Call) -> Value | None:
    """`Module.load_from_checkpoint(path, **arguments)`: a module whose other arguments the checkpoint says."""
    if not isinstance(given.owner, Class):
        return None
    return apply(reader, given.owner, Call("", (), given.named, given.source, is_open=True))


def _strategy(reader: Reader, given: Call) -> Value | None:
    """`DeepSpeedStrategy(config="zero3.json")` reads its file (lightning 2.6.2 pytorch/strategies/deepspeed.py:812)."""
    config = given.named.get("config")
    document = reader.find(str(config.value)) if isinstance(config, Known) and config.value else None
    read = value_of_document(document) if document is not None else None
    named = {**given.named, **({CONFIG_TEXT: read} if read is not None else {})}
    made = Made(given.name, given.positional, named, given.source, None, given.is_open)
    reader.made(made)
    reader.observe(made)
    return made


def _given_back(reader: Reader, given: Call) -> Value | None:
    """`model, optimizer = fabric.setup(model, optimizer)` gives back what it is given."""
    if not is_of_lightning(given.owner, "Fabric"):
        return None
    return given.positional[0] if len(given.positional) == 1 else Items(list(given.positional), given.source)


def _launched(reader: Reader, given: Call) -> Value | None:
    """`fabric.launch(main, *arguments)` calls `main(fabric, *arguments)` in each process (lightning 2.6.2
    fabric/fabric.py, _wrap_and_launch)."""
    (function,) = given.positional[:1] or (None,)
    if not is_of_lightning(given.owner, "Fabric") or not isinstance(function, PythonFunction):
        return None
    arguments = (given.owner or Known(None), *given.positional[1:])
    return follow(reader, function, Call("", arguments, given.named, given.source, given.is_open))


def _cli(reader: Reader, given: Call) -> Value | None:
    """`LightningCLI(Module, DataModule)` makes all three of the command's configuration and runs `fit`, where the
    command names it (lightning 2.6.2 pytorch/cli.py)."""
    words = [one.value for one in reader.command.positional if isinstance(one, Known)]
    config = reader.option("config")
    document = reader.find(str(config.value)) if isinstance(config, Known) and config.value else None
    read = value_of_document(document) if document is not None else None
    if "fit" not in words or not isinstance(read, Table):
        return None
    _overridden(reader, read)
    module = _made_of(reader, given.argument(0, "model_class"), _section(read, "model"), given)
    data = _made_of(reader, given.argument(1, "datamodule_class"), _section(read, "data"), given)
    said = _section(read, "trainer") or Table({})
    named = {str(key): _of_class_path(value) for key, value in said.values.items()}
    trainer = Made("lightning.pytorch.Trainer", (), named, given.source)
    reader.observe(trainer)
    given_data = {} if data is None else {"datamodule": data}
    positional = () if module is None else (module,)
    return _fit(reader, Call(".fit", positional, given_data, given.source, owner=trainer))


def _section(of: Table, name: str) -> Table | None:
    found = of.values.get(name)
    return found if isinstance(found, Table) else None


def _overridden(reader: Reader, read: Table) -> None:
    """`--trainer.devices 4` over the file's value."""
    for option in reader.command.options:
        *path, last = option.split(".")
        holder: Value | None = read
        for name in path:
            holder = holder.values.get(name) if isinstance(holder, Table) else None
        value = reader.option(option)
        if path and isinstance(holder, Table) and value is not None:
            holder.values[last] = value


def _made_of(reader: Reader, of: Value | None, said: Table | None, given: Call) -> Value | None:
    """The module of a class with what its section says; None where `class_path` names another."""
    values = {} if said is None else {str(key): value for key, value in said.values.items()}
    if not isinstance(of, Class) or "class_path" in values:
        return None
    return apply(reader, of, Call("", (), values, given.source))


def _of_class_path(value: Value) -> Value:
    """`{class_path: lightning.pytorch.strategies.DeepSpeedStrategy, init_args: {stage: 3}}` as the object."""
    path = value.values.get("class_path") if isinstance(value, Table) else None
    if not isinstance(value, Table) or not isinstance(path, Known):
        return value
    inner = value.values.get("init_args")
    named = {str(key): one for key, one in inner.values.items()} if isinstance(inner, Table) else {}
    name = str(path.value)
    return Made(name if "." in name else f"lightning.pytorch.strategies.{name}", (), named, value.source)


LIBRARIES: Mapping[str, Library] = {
    ".fit": _fit,
    ".add_argparse_args": _adds_flags,
    ".from_argparse_args": _of_flags,
    "inherited save_hyperparameters": _keeps_hyperparameters,
    "inherited load_from_checkpoint": _from_checkpoint,
    ".DeepSpeedStrategy": _strategy,
    **dict.fromkeys((".setup", ".setup_module", ".setup_optimizers", ".setup_dataloaders"), _given_back),
    ".launch": _launched,
    ".LightningCLI": _cli,
}
