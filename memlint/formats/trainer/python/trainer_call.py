"""The call that makes a trainer: whether it is one, its training arguments and its model.

`DPOTrainer(model, ref_model, args)` is a `Made` of the name "DPOTrainer"; `arguments_of` gives the value of `args`,
which TRL's trainers take at different positions, and `argument_keys` the keys that it stands for: of
`DPOConfig(beta=0.1)` it is ("DPOConfig", {"beta": Known(0.1)}).
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.trainer.python.libraries import FROM_COMMAND_LINE, MAY_BE_PASSED
from memlint.formats.trainer.python.lightning_calls import is_of_lightning
from memlint.formats.trainer.python.model import Keys, merged
from memlint.formats.trainer.python.python_run import TRANSFORMERS, TRL
from memlint.source.python.classes import external_bases
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
    source_of,
)

# trl 1.16.0, of XPO and Nash-MD 1.13.0: where the arguments stand, counted from 0; the second unless said.
_POSITION_OF_ARGUMENTS: Mapping[str, int] = {
    **dict.fromkeys(("DPOTrainer", "GRPOTrainer", "RLOOTrainer", "KTOTrainer", "GKDTrainer"), 2),
    **dict.fromkeys(("OnlineDPOTrainer", "XPOTrainer", "NashMDTrainer"), 3),
}
# optimum-habana 1.18, optimum-neuron 0.3 and optimum-tpu 0.2 train on Gaudi, Trainium and TPUs alone.
_OF_OTHER_ACCELERATORS = ("optimum.habana.", "optimum.neuron.", "optimum.tpu.")
_IGNORED = frozenset({"self", "output_dir", "logging_dir", "hub_token", "processing_class", "tokenizer"})


def is_trainer(made: Made) -> bool:
    """Whether a call makes a trainer of transformers or TRL, or one of another class that takes `args=`."""
    known = made.last in TRL | TRANSFORMERS
    return (
        made.last.endswith("Trainer")
        and not is_of_lightning(made, made.last)
        and (known or "args" in made.arguments)
        and bool(made.arguments or made.positional)
    )


def trains_by_itself(trainer: Made) -> bool:
    """Whether the script itself says how it trains on a GPU: library code passes on what it is given, and a script with
    HfArgumentParser has its arguments from a command line."""
    if trainer.name.startswith(_OF_OTHER_ACCELERATORS):
        return False
    arguments, model = arguments_of(trainer), model_of(trainer)
    if isinstance(arguments, (Made, Instance)):
        return _is_configuration(arguments) and FROM_COMMAND_LINE not in arguments.attributes
    return isinstance(arguments, Either) or (arguments is None and isinstance(model, (Known, Made)))


def _is_configuration(arguments: Made | Instance) -> bool:
    """Whether these are arguments of transformers or TRL: `SFTConfig` and the like, or a class of them."""
    bases = external_bases(arguments.of) if isinstance(arguments, Instance) else (External(arguments.name),)
    return any(base.last.endswith(("Arguments", "Config")) for base in bases)


def arguments_of(trainer: Made) -> Value | None:
    """The training arguments: `args=`, `config=`, or the argument at the trainer's position for them."""
    position = _POSITION_OF_ARGUMENTS.get(trainer.last, 1)
    given = next((trainer.arguments[name] for name in ("args", "config") if name in trainer.arguments), None)
    return given or (trainer.positional[position] if len(trainer.positional) > position else None)


def model_of(trainer: Made) -> Value | None:
    """The model that it trains: `model=`, RLOO's `policy=` (trl 0.11.4 to 0.21.0 trainer/rloo_trainer.py), or its first
    argument."""
    named = trainer.arguments.get("model") or trainer.arguments.get("policy")
    return named or (trainer.positional[0] if trainer.positional else None)


def argument_values(arguments: Value | None) -> Mapping[str, Value]:
    """Each argument that the call or later assignments give, also those that are no keys."""
    if isinstance(arguments, Instance):
        return arguments.attributes
    return {**arguments.arguments, **arguments.attributes} if isinstance(arguments, Made) else {}


def argument_keys(arguments: Value | None) -> tuple[str, Keys]:
    """The class of the training arguments, and its keys."""
    if arguments is None:
        return "", {}
    if isinstance(arguments, Either):
        ways = [argument_keys(one) for one in arguments.values]
        return ways[0][0], merged([keys for _, keys in ways], arguments.reason)
    if isinstance(arguments, Made):
        keys = _plain({**arguments.arguments, **arguments.attributes})
        return arguments.last, {**_hidden_in_kwargs(arguments, keys), **keys}
    if isinstance(arguments, Instance):
        bases = external_bases(arguments.of)
        return (bases[0].last if bases else arguments.of.name), _plain(arguments.attributes)
    return "", {"per_device_train_batch_size": _unknown(arguments), "gradient_accumulation_steps": _unknown(arguments)}


HIDDEN = "the script passes on arguments that memlint does not see"


def _hidden_in_kwargs(arguments: Made, keys: Keys) -> Keys:
    """Keys that `**kwargs` of unknown content may hold beside those that are seen."""
    if not arguments.is_open:
        return {}
    reason = Undetermined(HIDDEN, arguments.source)
    return {key: reason for key in MAY_BE_PASSED if key not in keys}


def _unknown(value: Value) -> Undetermined:
    return (
        value
        if isinstance(value, Undetermined)
        else Undetermined("the training arguments are not ones that memlint sees")
    )


def _plain(values: Mapping[str, Value]) -> Keys:
    return {name: _spelled(value) for name, value in values.items() if name not in _IGNORED}


def _spelled(value: Value) -> Value:
    """A value as a file can say it: an enumeration's member is its word (`IntervalStrategy.STEPS` is "steps")."""
    if isinstance(value, External):
        return Known(value.last.lower()) if value.last.isupper() else Undetermined(f"`{value.name}`")
    if isinstance(value, Made) and value.last == "ParallelismConfig":
        degrees = {name: one for name, one in value.arguments.items() if name.endswith("_size")}
        return Table(dict(degrees), value.source)
    if isinstance(value, Made):
        return Undetermined(f"what `{value.last}` returns is not known", value.source)
    if isinstance(value, (Known, Undetermined, Either, Items, Table)):
        return value
    return Undetermined("an object of the script", source_of(value))
