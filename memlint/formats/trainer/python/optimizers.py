"""The optimizer that a training loop makes, as a name of memory/state/optimizers.json.

torch 2.13 optim, bitsandbytes 0.50 optim, transformers 4.45 and 5.23 optimization.py, torchao 0.18 optim, deepspeed
0.19.8 ops/adam, lion_pytorch 0.2.5, schedulefree 1.4: a class by its package and name. Adam keeps what AdamW keeps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memlint.formats.trainer.python.model import Keys
from memlint.source.python.values import Known, Made, Undetermined, Value, either, is_on

_OF_BITSANDBYTES: Mapping[str, str] = {
    **dict.fromkeys(("AdamW", "Adam", "AdamW32bit", "Adam32bit"), "adamw_bnb_32bit"),
    **dict.fromkeys(("PagedAdamW", "PagedAdam"), "paged_adamw_32bit"),
    **dict.fromkeys(("Lion", "Lion32bit"), "lion_32bit"),
    **dict.fromkeys(("PagedLion", "PagedLion32bit"), "paged_lion_32bit"),
    **dict.fromkeys(("RMSprop", "RMSprop32bit"), "rmsprop_bnb"),
    "AdEMAMix": "ademamix",
}
_OF_TORCHAO: Mapping[str, str] = {
    **dict.fromkeys(("AdamW8bit", "Adam8bit"), "adamw_torch_8bit"),
    **dict.fromkeys(("AdamW4bit", "Adam4bit"), "adamw_torch_4bit"),
    **dict.fromkeys(("AdamWFp8", "AdamFp8"), "ao_adamw_fp8"),
}
_OF_DEEPSPEED: Mapping[str, str] = {"FusedAdam": "fused_adam", "DeepSpeedCPUAdam": "cpu_adam"}
# By the first part of the class's name, where a package has a class of a usual name that keeps something else.
_BY_PACKAGE: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("bitsandbytes", "bnb"), _OF_BITSANDBYTES),
    "torchao": _OF_TORCHAO,
    "deepspeed": _OF_DEEPSPEED,
    "transformers": {"AdamW": "adamw_hf"},
    "lion_pytorch": {"Lion": "lion_pytorch"},
}
_BY_NAME: Mapping[str, str] = {
    **dict.fromkeys(("AdamW", "Adam", "RAdam"), "adamw_torch"),
    "NAdam": "nadam",
    **dict.fromkeys(("AdamW8bit", "Adam8bit"), "adamw_8bit"),
    **dict.fromkeys(("PagedAdamW", "PagedAdamW32bit", "PagedAdam32bit"), "paged_adamw_32bit"),
    **dict.fromkeys(("PagedAdamW8bit", "PagedAdam8bit"), "paged_adamw_8bit"),
    "Lion8bit": "lion_8bit",
    "PagedLion8bit": "paged_lion_8bit",
    "RMSprop8bit": "rmsprop_bnb_8bit",
    "AdEMAMix8bit": "ademamix_8bit",
    "PagedAdEMAMix8bit": "paged_ademamix_8bit",
    "Adafactor": "adafactor",
    "Adagrad": "adagrad",
    "RMSprop": "rmsprop",
    "SGD": "sgd",
    "FusedAdam": "adamw_torch",
    "AdamWScheduleFree": "schedule_free_adamw",
    "SGDScheduleFree": "schedule_free_sgd",
}
# Names of optimizers, of libraries that are not read as well.
_OPTIMIZER = re.compile(
    r"^[A-Z]\w*(?:Adam|SGD|Muon|Lion|Adafactor|Adagrad|Shampoo|Lamb(?!da)|LAMB|Sophia|Prodigy|SOAP|Novograd|Optimizer)"
    r"|^(?:Adam|SGD|Muon|Lion|Adafactor|Adagrad|Adadelta|RMSprop|Shampoo|Lamb(?!da)|LAMB|Sophia|Prodigy|SOAP|RAdam|NAdam|Optimizer$)"
)
_FUSED = {"adamw_torch": "adamw_torch_fused"}
# A state more: Adafactor's first moment, RMSprop's mean.
_MORE_STATES = ("beta1", "centered")
_NOTHING = (None, False, 0, 0.0)


def is_optimizer_name(name: str) -> bool:
    """Whether a class has the name of an optimizer, of a library that is read or of another."""
    is_other = name.endswith(("Scheduler", "Config", "Arguments", "Wrapper", "LR"))
    return _OPTIMIZER.match(name.lstrip("_")) is not None and not is_other


def optimizer_keys(optimizers: list[Made]) -> Keys:
    """`optim` and `optim_args` of the optimizers that a loop makes; one of several where the script chooses."""
    momenta = [made.arguments["momentum"] for made in optimizers if "momentum" in made.arguments]
    momentum = momenta[0] if momenta else None
    keys: Keys = {"optim": either([_name(made) for made in optimizers], "the script chooses among optimizers")}
    if isinstance(momentum, Known) and len(optimizers) == 1:
        keys["optim_args"] = Known(f"momentum={momentum.value}", momentum.source)
    return keys


def _name(made: Made) -> Value:
    package = made.name.partition(".")[0]
    word = _BY_PACKAGE.get(package, {}).get(made.last) or _BY_NAME.get(made.last)
    more = [made.arguments[name] for name in _MORE_STATES if name in made.arguments]
    bits = made.arguments.get("optim_bits")
    momentum = made.arguments.get("momentum")
    is_unread = (bits is not None and not (isinstance(bits, Known) and bits.value == 32)) or any(
        not (isinstance(one, Known) and one.value in _NOTHING) for one in more
    )
    if word is None or is_unread or (momentum is not None and not isinstance(momentum, Known)):
        return Undetermined(f"`{made.last}` is not read", made.source)
    if is_on(made.arguments.get("amsgrad")):
        word = f"{word}_amsgrad" if word == "adamw_torch" else None
    elif is_on(made.arguments.get("fused")):
        word = _FUSED.get(word, word)
    return Known(word, made.source) if word else Undetermined(f"`{made.last}` is not read", made.source)
