"""Arguments that the classes of transformers, TRL and PEFT refuse: names that no release has, values of an adapter."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from memlint.formats.schema.suggest import nearest
from memlint.formats.trainer.argument_classes import arguments_taken, is_known
from memlint.formats.trainer.meant import OTHER_NAMES
from memlint.formats.trainer.python.taken import TAKES_WHAT_IT_ASKS, handed_to_library
from memlint.formats.versions import Version
from memlint.source.document import RefusedArgument, Span
from memlint.source.python.values import External, Items, Known, Made, Value, is_on, source_of

_LIBRARIES = ("transformers", "trl", "peft")
_TRAINING_ARGUMENTS = "TrainingArguments"
# Names that others use for what a trainer takes, and for what an adapter's configuration takes.
_OF_TRAINERS: Mapping[str, str] = {
    **dict.fromkeys(("config", "training_args", "training_arguments", "training_config", "arguments"), "args"),
    **dict.fromkeys(("lora_config", "peft_cfg"), "peft_config"),
    "train_data": "train_dataset",
    "eval_data": "eval_dataset",
}
_OF_ADAPTERS: Mapping[str, str] = {
    **dict.fromkeys(("rank", "lora_r", "lora_rank"), "r"),
    **dict.fromkeys(("alpha", "scaling"), "lora_alpha"),
    "dropout": "lora_dropout",
    **dict.fromkeys(("lora_target_modules", "targets", "lora_target", "modules"), "target_modules"),
}


# `sys.path.append("peft/src")`: a copy that may have arguments of its own.
_OWN_COPY = re.compile(r"\bsys\.path\.(?:append|insert)\(.*\b(?:transformers|trl|peft)\b")


def refused_arguments(calls: Iterable[Made], text: str) -> tuple[RefusedArgument, ...]:
    """What the calls of a script are given and refuse, in its order. `text`: its code, which may ask what a release
    takes."""
    if TAKES_WHAT_IT_ASKS.search(text) or _OWN_COPY.search(text):
        return ()
    known = (made for made in calls if made.name.partition(".")[0] in _LIBRARIES and is_known(made.last))
    each = {made.source: made for made in known}
    return tuple(one for made in each.values() for one in (*_names(made), *_values(made)))


def _names(made: Made) -> Iterator[RefusedArgument]:
    """Names that no release of the class has. Several that resemble no argument are rather a fork's."""
    given = handed_to_library(made)
    unknown = {name: _instead(made.last, name, given) for name in sorted(given - arguments_taken(made.last))}
    is_fork = sum(not instead for instead in unknown.values()) > 1
    for name, instead in unknown.items():
        library = made.name.partition(".")[0]
        words = instead or f" in any release of {library}"
        otherwise = f" unless a fork of {library} is installed" if is_fork and not instead else ""
        message = f"{made.last} takes no `{name}`{words} (Python raises TypeError{otherwise})"
        severity = "error" if instead else "info" if is_fork else "warning"
        yield RefusedArgument(made.last, name, "unknown-key", message, severity, *_place(made, name))


def _instead(called: str, name: str, given: Collection[str]) -> str:
    """What to write instead, in words; "" where that is not clear."""
    known = arguments_taken(called)
    aliases = _OF_TRAINERS if called.endswith("Trainer") else OTHER_NAMES if "output_dir" in known else _OF_ADAPTERS
    if aliases.get(name) in known:
        return f": use `{aliases[name]}`"
    near = nearest(name, sorted(known.difference(given)))
    owner = next((other for other in _beside(called) if name in arguments_taken(other)), "")
    return f": did you mean `{near}`?" if near else f": {owner} has it" if owner else ""


def _beside(called: str) -> Iterator[str]:
    """The classes whose arguments are given to this one by mistake: those of its trainer or configuration."""
    kind = called.removesuffix("Trainer").removesuffix("Config")
    others = (f"{kind}Config", _TRAINING_ARGUMENTS) if called.endswith("Trainer") else (f"{kind}Trainer", "SFTConfig")
    yield from (one for one in (*others, "LoraConfig") if is_known(one) and one != called)


def _place(made: Made, name: str) -> tuple[str, Span | None]:
    """The place of an argument's value, where it is written in the call; else that of the call."""
    source, outer = source_of(made.arguments[name]), made.source.span
    inner = source.span if source.path == made.source.path else None
    is_inside = outer is not None and inner is not None and outer.start <= inner.start and inner.end <= outer.end
    return made.source.path, inner if is_inside else outer


# ---- values of an adapter's configuration

# peft 0.21.2 utils/peft_types.py, TaskType: compared with the case of its letters.
_TASKS = ("SEQ_CLS", "SEQ_2_SEQ_LM", "CAUSAL_LM", "TOKEN_CLS", "QUESTION_ANS", "FEATURE_EXTRACTION")
_SINCE_TASKS: Version = (0, 14)  # peft config.py:66; before, any other word made a plain PeftModel
_OF_LORA = frozenset({"LoraConfig", "AdaLoraConfig"})
# peft 0.21.2 tuners/lora/layer.py:288-342, reset_lora_parameters and its like.
_STARTS = re.compile(r"(?i:gaussian|olora|mica)|pissa(?:_niter_\d+)?|corda|loftq|eva|orthogonal|lora_ga")
_WORDS_OF_STARTS = ("gaussian", "pissa", "olora", "mica", "corda", "loftq", "eva", "orthogonal", "lora_ga")


def _values(made: Made) -> Iterator[RefusedArgument]:
    if not made.name.startswith("peft."):
        return
    checks: tuple[Callable[[Made], RefusedArgument | None], ...] = (_task,)
    if made.last in _OF_LORA:
        checks += (_bias, _start, _layers, _pattern, _targets, _loftq, _lora_bias)
    for check in checks:
        found = check(made)
        if found is not None:
            yield found


def _refused(made: Made, name: str, message: str, since: Version = ()) -> RefusedArgument:
    return RefusedArgument(made.last, name, "bad-value", message, "error", *_place(made, name), "peft", since)


def _task(made: Made) -> RefusedArgument | None:
    value = made.arguments.get("task_type")
    if isinstance(value, External) and value.name.startswith("peft.") and ".TaskType." in value.name:
        if value.last in _TASKS:
            return None
        hint = _did_you_mean(value.last, _TASKS)
        message = f"PEFT's TaskType has no `{value.last}`{hint} (Python raises AttributeError)"
        return _refused(made, "task_type", message)
    if not isinstance(value, Known) or not isinstance(value.value, str) or value.value in _TASKS:
        return None
    hint = _did_you_mean(value.value.upper(), _TASKS)
    message = f"`task_type: {value.value[:40]}` is none of PEFT's tasks{hint} PEFT raises ValueError since 0.14"
    return _refused(made, "task_type", message, _SINCE_TASKS)


def _bias(made: Made) -> RefusedArgument | None:
    """peft 0.21.2 tuners/tuners_utils.py:526; the releases before compare with `lora_only` as well."""
    value = made.arguments.get("bias")
    if not isinstance(value, Known) or value.value in ("none", "all", "lora_only"):
        return None
    word = value.value if isinstance(value.value, str) else repr(value.value)
    message = f"`bias: {word[:40]}` is none of PEFT's words{_did_you_mean(word, ('none', 'all', 'lora_only'))}"
    return _refused(made, "bias", f"{message} PEFT fails when it makes the adapter")


def _start(made: Made) -> RefusedArgument | None:
    value = made.arguments.get("init_lora_weights")
    if not isinstance(value, Known) or not isinstance(value.value, str) or _STARTS.fullmatch(value.value):
        return None
    if value.value.lower().startswith(("pissa", "corda")) and "_iter" not in value.value:
        return None  # a later release's variant
    hint = _did_you_mean(value.value, _WORDS_OF_STARTS)
    message = f"`init_lora_weights: {value.value[:40]}` is none of PEFT's words{hint} PEFT raises ValueError"
    return _refused(made, "init_lora_weights", message)


def _layers(made: Made) -> RefusedArgument | None:
    """peft 0.8.2 to 0.21.2 tuners/lora/config.py, __post_init__."""
    targets = made.arguments.get("target_modules")
    for name in ("layers_to_transform", "layers_pattern"):
        if _is_text(targets) and _is_given(made, name):
            message = f"`{name}` cannot be used with a `target_modules` that is one text: PEFT raises ValueError"
            return _refused(made, name, message)
    return None


def _pattern(made: Made) -> RefusedArgument | None:
    """peft 0.14.0 tuners/lora/config.py, __post_init__."""
    if not _is_given(made, "layers_pattern") or "layers_to_transform" in made.arguments or made.is_open:
        return None
    if _is_text(made.arguments.get("target_modules")):
        return None  # told above
    message = "`layers_pattern` needs `layers_to_transform` beside it: PEFT raises ValueError"
    return _refused(made, "layers_pattern", message, _SINCE_TASKS)


# Words between commas or blanks: no name of a module has either, and PEFT takes one text for one pattern.
_SEVERAL_NAMES = re.compile(r"\w[\w.]*(?:(?:\s*,\s*|\s+)\w[\w.]*)+")


def _targets(made: Made) -> RefusedArgument | None:
    """peft 0.3 to 0.21.2 tuners/lora, _check_target_module_exists: `re.fullmatch` of the whole name."""
    value = made.arguments.get("target_modules")
    if not isinstance(value, Known) or not isinstance(value.value, str) or not _SEVERAL_NAMES.fullmatch(value.value):
        return None
    message = f"`target_modules: {value.value[:60]}` is one pattern, which no module matches: write a list"
    return _refused(made, "target_modules", f"{message}; PEFT raises ValueError")


def _loftq(made: Made) -> RefusedArgument | None:
    """peft 0.5 to 0.21.2 tuners/lora/config.py, __post_init__."""
    value = made.arguments.get("init_lora_weights")
    is_loftq = isinstance(value, Known) and value.value == "loftq"
    if not is_loftq or "loftq_config" in made.arguments or made.is_open:
        return None
    return _refused(made, "init_lora_weights", "`loftq` needs a `loftq_config` beside it: PEFT raises ValueError")


def _lora_bias(made: Made) -> RefusedArgument | None:
    """peft 0.14.0 to 0.21.2 tuners/lora/config.py, __post_init__."""
    given = made.arguments
    if not is_on(given.get("lora_bias")):
        return None
    start = given.get("init_lora_weights")
    if is_on(given.get("use_dora")):
        return _refused(made, "lora_bias", "`lora_bias` and `use_dora` are refused together: PEFT raises ValueError")
    if isinstance(start, Known) and not isinstance(start.value, bool):
        message = "`lora_bias` is refused with `init_lora_weights` other than True and False: PEFT raises ValueError"
        return _refused(made, "lora_bias", message)
    return None


def _is_text(value: Value | None) -> bool:
    return isinstance(value, Known) and isinstance(value.value, str)


def _is_given(made: Made, name: str) -> bool:
    value = made.arguments.get(name)
    return (isinstance(value, Known) and value.value is not None) or (isinstance(value, Items) and bool(value.values))


def _did_you_mean(word: str, known: tuple[str, ...]) -> str:
    near = nearest(word, known)
    return f": did you mean `{near}`?" if near else f"; it takes {', '.join(known)}:"
