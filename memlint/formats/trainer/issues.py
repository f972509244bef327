"""Issues about a Trainer file's keys and values, without false alarms about keys of the user's own script.

A script defines dataclasses of its own, so an unknown key is no error. It is reported only where it is a slip of a
known key that the file does not have and no script of the repository declares. A key that newer releases dropped is
information while nobody says which release is in use. Of a file that a script reads by itself (reader.py) the engine
leaves all of this away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.fields import as_bool, as_number, interpolated
from memlint.formats.issues import KEY_NAME_CODES
from memlint.formats.schema.suggest import nearest, slip_of
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.trainer.argument_classes import own_arguments
from memlint.formats.trainer.argument_names import OF_TRL, TRAINING_ARGUMENTS
from memlint.formats.trainer.argument_words import word_issues
from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.trainer.meant import config_reader, meant_issues, refused_text
from memlint.formats.trainer.quantized import REFUSED, trains_quantised_weights
from memlint.formats.trainer.reader import is_brought, is_record
from memlint.formats.trainer.recognise import SCHEMA
from memlint.formats.trainer.releases import newest_trl_for
from memlint.formats.training_arguments.nulls import ENDS_THE_RUN, ENUMERATED, ends_the_run
from memlint.source.document import Document, NoRelease
from memlint.source.flags import flag_of
from memlint.source.layout import written_text

# What is said of a file that HfArgumentParser or TrlParser reads.
_PARSER_CODES = ("unknown-key", "wrong-type", "removed-key", "renamed-key", "string-number")
_CLASS_CODES = (*_PARSER_CODES, "bad-value", "removed-value")  # what depends on the classes that read a file
# What a script can pass to an argument class: an argument of TRL's own scripts (`reward_funcs`) is none.
_CLASS_ARGUMENTS = TRAINING_ARGUMENTS.union(*map(own_arguments, OF_TRL))
_OUTDATED = ("removed-key", "renamed-key")
_PASS_TEXT_ON = frozenset({"HfArgumentParser", "H4ArgumentParser"})
# Arguments that are used in arithmetic or comparisons while the arguments are built (training_args.py:_validate_args).
_FAILS_AT_ONCE = ("warmup_steps", "logging_steps", "eval_steps", "save_steps")


def _is_newer_than_stated(issue: Issue, config: TrainerConfig) -> bool:
    """Whether a key went in a release of TRL that the stated transformers is too old for."""
    if issue.code not in _OUTDATED or "trl" in config.stated or "transformers" not in config.stated:
        return False
    trl = newest_trl_for(config.stated["transformers"])
    versions = {**config.stated, **({"trl": trl} if trl else {})}
    section = config.section
    there = schema_issues(section.value, section.document.path, SCHEMA, versions) if trl else (issue,)
    return all(one.pointer != issue.pointer or one.code not in _OUTDATED for one in there)


def trainer_issues(config: TrainerConfig) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.stated)
    found = tuple(issue for issue in found if not _is_newer_than_stated(issue, config))
    known = compiled_schema(SCHEMA).schema["properties"]
    of_trainer = (*_no_release(config), *_outdated_arguments(config), *refused_arguments(config))
    told = {(name,) for issue in of_trainer for name in issue.pointer}
    judged = (_with_severity_here(issue, config) for issue in found if issue.pointer[:1] not in told)
    kept = _once(
        (
            *_refused(config, known),
            *_nulls(config),
            *of_trainer,
            *_old_strategy(config),
            *(issue for issue in judged if issue is not None),
            *_typos(config, known),
            *meant_issues(config),
            *word_issues(config),
        )
    )
    kept = tuple(_of_script(issue, section.document) for issue in kept if not _is_programs_own(issue, section.document))
    if is_record(section.value):
        return tuple(issue for issue in kept if issue.code not in _PARSER_CODES)
    others = tuple(issue for issue in kept if issue.code not in _CLASS_CODES)
    return others if len(others) < len(kept) and _is_read_elsewhere(config) else kept


def _is_read_elsewhere(config: TrainerConfig) -> bool:
    """Whether all commands that name the file give it to programs that the repository does not have: which keys and
    words these know is not known."""
    if config.section.document.start is not None:
        return False
    launches = config.context.repository.launch_commands(config.section.document.path)
    return bool(launches) and all(one.is_foreign for one in launches)


def own_file_issues(document: Document) -> Iterator[Issue]:
    """What the repository's scripts say of a configuration file with keys of its own."""
    start = document.start
    if start is None:
        return
    for message in start.own_file.disagreements:
        yield Issue("several-readers", message, document.path, severity="info")
    for key in start.own_file.unread:
        name = key.rpartition(".")[2]
        message = f"`{name}` is in no script of the repository: {start.program.entry} makes the run without it"
        yield Issue("unread-key", message, document.path, (key,), "warning")


def _is_programs_own(issue: Issue, document: Document) -> bool:
    """Whether the issue is of an argument that is not written here. A value that the program, a file or the command of
    another file brings is judged there; a flag that a program with argparse defines has a name of its own, and may
    be off at 0 (`--lora_rank 0`); what Hydra's `key=value` sets is a key of the program's own configuration."""
    start = document.start
    if start is None or not issue.pointer:
        return False
    key = str(issue.pointer[0])
    if key in start.accepted.overridden:
        return True
    is_own_flag = document.syntax == "shell" and start.accepted.is_own and key in start.accepted.defined
    if issue.code in _OUTDATED:
        return is_brought(document, (key,)) or is_own_flag
    is_off = is_own_flag and _value(document.value, issue.pointer) == 0
    return is_off or (document.syntax == "shell" and is_brought(document, (key,)))


def _of_script(issue: Issue, document: Document) -> Issue:
    """An issue of an argument's name, where a script passes the argument on and its value stands in a configuration
    file: the name is the script's, and renaming the file's key would break what the script reads."""
    start = document.start
    if (
        issue.code not in KEY_NAME_CODES
        or document.syntax != "python"
        or start is None
        or start.program.entry == document.path
    ):
        return issue
    message = f"{issue.message}, where {start.program.entry} passes this value on"
    return issue._replace(message=message, edit=None, suggestion="")


def _once(issues: tuple[Issue, ...]) -> tuple[Issue, ...]:
    """The first issue of each place: one key is one finding."""
    first = {issue.pointer: issue for issue in reversed(issues)}
    return tuple(issue for issue in issues if first[issue.pointer] is issue)


def _with_severity_here(issue: Issue, config: TrainerConfig) -> Issue | None:
    """An issue of the schema with the severity that fits this file, or None."""
    value = _value(config.section.value, issue.pointer)
    if interpolated(value) or (isinstance(value, list) and any(map(interpolated, value))):
        return None  # a template: what will stand there is not known
    if issue.code in ("removed-key", "renamed-key"):
        return _outdated(issue, config)
    if issue.code == "bad-value" and _is_of_no_adapter(issue, config):
        return None
    if issue.code == "removed-value":  # as with a key that is gone, an older release may be in use
        return issue._replace(severity="warning" if "transformers" in config.stated else "info")
    if issue.pointer == ("optim",):
        return _optimizer(issue, value)
    if issue.code == "wrong-type" and _has_types_of_its_own(config.section.document):
        return None
    if issue.code == "wrong-type" and isinstance(value, (bool, int)) and "string" in issue.message:
        if config.section.document.start is None and _is_own(issue, config):
            return None
        # a flag without a word: the script leaves a variable empty; a class converts nothing and hardly compares text
        return (
            None if value is True and config.section.document.start is not None else issue._replace(severity="warning")
        )
    if (
        issue.code == "wrong-type"
        and isinstance(value, bool)
        and ("integer" in issue.message or "number" in issue.message)
    ):
        # a truth value counts as 0 or 1 in Python, and no class looks at the type
        return None if config.section.document.syntax == "python" else issue._replace(severity="warning")
    if issue.code == "wrong-type" and isinstance(value, int) and config.section.document.syntax == "python":
        # any number but 0 is on; transformers 4.39.3 utils/quantization_config.py asks for the truth of `load_in_4bit`
        return None if "true or false" in issue.message else issue
    if issue.code == "wrong-type" and isinstance(value, (dict, list)) and _is_own(issue, config):
        return None
    if isinstance(value, str) and issue.code == "wrong-type":
        if as_number(value) is None:
            return refused_text(issue, value, config)
        if _is_quoted_in_python(issue, config.section.document):
            return _text_in_call(issue, value, config.section.document)
        is_command = config.section.document.start is not None  # argparse converts every flag
        return None if is_command or _converts(config) else _text_for_number(issue, value, config)
    if issue.code == "wrong-type" and config.trl:
        return issue._replace(severity="warning")
    return issue


def _is_of_no_adapter(issue: Issue, config: TrainerConfig) -> bool:
    """Whether the value would be LoRA's, and `use_peft: false` makes none: only a module that gets an adapter looks at
    the rank (trl 0.14.0 and 1.16.0 trainer/utils.py:get_peft_config; peft 0.21.2 tuners/lora/layer.py:239)."""
    return str(issue.pointer[0]).startswith("lora_") and as_bool(config.section.value.get("use_peft")) is False


def _has_types_of_its_own(document: Document) -> bool:
    """Whether a command starts a program of the repository whose parser makes of a flag's text what it likes:
    `@click.option("--local_rank", default=True)` makes it a truth value."""
    start = document.start
    return (
        document.syntax == "shell" and start is not None and bool(start.program.file) and not start.accepted.by_classes
    )


def _is_own(issue: Issue, config: TrainerConfig) -> bool:
    """Whether a dataclass of the repository declares the key: a mixture of data sets may stand under `dataset_name`."""
    return len(issue.pointer) == 1 and bool(config.context.repository.field_annotations(str(issue.pointer[0])))


def _optimizer(issue: Issue, value: Any) -> Issue:
    """`OptimizerNames(self.optim)` raises ValueError for a name that is not one of its members."""
    options = compiled_schema(SCHEMA).schema["properties"]["optim"]["anyOf"][0]["enum"]
    guess = nearest(value, options) if isinstance(value, str) else ""
    hint = f": did you mean `{guess}`?" if guess else ""
    message = f"`optim: {value}` is no optimizer of transformers{hint}"
    return issue._replace(code="bad-value", message=message, suggestion=guess)


def _value(value: Any, pointer: tuple[str | int, ...]) -> Any:
    for step in pointer:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
    return value


def _outdated(issue: Issue, config: TrainerConfig) -> Issue | None:
    """A known version was compared already; else an older release may be in use, or the key is the script's."""
    framework = compiled_schema(SCHEMA).schema["properties"][issue.pointer[0]]["x-memlint-removed-in"].split()[0]
    if framework == "trl" and not config.trl:
        return None  # `max_seq_length`, `torch_dtype`: keys of the script
    never = _never_taken(config)
    if framework in config.context.at_commits or (never is not None and never.framework == framework):
        return None  # a commit that may be older; a call that no release takes
    if config.drops(str(issue.pointer[0])):
        message = f"{issue.message}; TRL drops it, and the weights load in float32 unless `dtype` says otherwise"
        return issue._replace(message=message)
    if issue.pointer[0] in ("torch_dtype", "model_max_length"):
        return None
    if config.section.document.syntax != "python" and config.context.repository.field_annotations(
        str(issue.pointer[0])
    ):
        return None  # an argument class of the repository has it
    start = config.section.document.start
    if start is not None and start.program.asks_for_fields:
        return None
    if start is not None and start.program.is_foreign and framework not in config.stated:
        return None  # a program that nobody sees may have an argument of that name, in a release that nobody states
    return issue._replace(severity="warning" if framework in config.stated else "info")


def _converts(config: TrainerConfig) -> bool:
    """Whether TrlParser reads the file, which converts text, or OmegaConf, for which `1e-5` is a number: the script or
    the command that is tied to it says so, or scripts of the repository read TRL's arguments with TrlParser."""
    if {"TrlParser", "OmegaConf"} & config_reader(config).parsers:
        return True
    return bool(config.trl) and "TrlParser" in config.context.repository.argument_parsers()


def _is_quoted_in_python(issue: Issue, document: Document) -> bool:
    """Whether a script writes the text itself: `TrainingArguments(save_steps="500")`."""
    return document.syntax == "python" and written_text(document, issue.pointer)[:1] in ("'", '"')


_IN_LORA_CONFIG = {"lora_r": "r"}  # key -> the argument of LoraConfig
# Read where several processes train, or by nothing (transformers 5.23.0 training_args.py).
_MAY_NOT_BE_READ = frozenset({"ddp_timeout", "ddp_bucket_cap_mb", "local_rank"})


def _text_in_call(issue: Issue, value: str, document: Document) -> Issue | None:
    """No class converts its arguments: each numeric one of TrainingArguments as text ended a training of two steps
    (transformers 5.23.0; the comparisons are those of 4.30)."""
    key = _IN_LORA_CONFIG.get(str(issue.pointer[-1]), str(issue.pointer[-1]))
    if key in _MAY_NOT_BE_READ:
        return None
    when = "when the arguments are built" if key in _FAILS_AT_ONCE else "when it is used"
    message = f"`{key}={written_text(document, issue.pointer)[:40]}` is text, not a number: the run fails {when}"
    return issue._replace(message=f"{message}; write `{_dotted(value, as_number(value))}`")


def _text_for_number(issue: Issue, value: str, config: TrainerConfig) -> Issue | None:
    """YAML 1.1 has no `1e-5`. HfArgumentParser.parse_yaml_file hands the text on and the run fails in the optimizer
    (or at once, where the argument is compared); TrlParser makes it the parser's default, which argparse converts."""
    key = issue.pointer[-1]
    if config.section.document.syntax == "json":
        return issue
    reader = config_reader(config)
    if key not in _FAILS_AT_ONCE and config.context.repository.converts(reader.path, str(key)):
        return None
    when = "when the arguments are built" if key in _FAILS_AT_ONCE else "when it is used"
    number = as_number(value)
    by_parser = bool(reader.parsers & _PASS_TEXT_ON)
    passes_on = "HfArgumentParser.parse_yaml_file passes it on", " (TrlParser converts it)"
    if not by_parser:
        passes_on = "a script that loads the file with PyYAML passes it on", " (TrlParser converts it)"
    if config.section.document.syntax == "python":
        passes_on = "the script passes it on", ""
    written = written_text(config.section.document, issue.pointer)
    is_quoted = written[:1] in ("'", '"')
    said = (
        f"`{key}: {written}` is text, as it stands in quotes" if is_quoted else f"`{key}: {value}` is text in YAML 1.1"
    )
    message = (
        f"{said}, not a number: {passes_on[0]} and the run fails {when}{passes_on[1]}; write `{_dotted(value, number)}`"
    )
    severity = "error" if by_parser else "warning"
    return issue._replace(code="string-number", message=message, severity=severity, suggestion=_dotted(value, number))


def _dotted(text: str, number: float | int | None) -> str:
    """The number so that YAML 1.1 reads it as one: `1e-5` -> `1.0e-05`, `"8"` -> `8`."""
    plain = text.strip()
    if "e" not in plain.lower():
        return plain
    mantissa, _, exponent = plain.lower().partition("e")
    sign = "" if exponent[:1] in "+-" else "+"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{sign}{exponent}" if number is not None else plain


def _no_release(config: TrainerConfig) -> Iterator[Issue]:
    """What a Python script gives its trainer and no release takes together. Commits between two releases may."""
    found = _never_taken(config)
    if found is None:
        return
    last, first = (".".join(map(str, one)) for one in (found.last, found.first))
    newer = "and" if found.newer == found.older else f"{found.newer} takes"
    message = (
        f"{found.older} takes `{found.gone}` up to {found.framework} {last}, {newer} `{found.new}` from {first} on: "
        "no release takes both"
    )
    severity = "warning" if _follows(found.last, found.first) else "error"
    yield Issue("no-release", message, config.section.document.path, (found.older, found.gone), severity)


def _never_taken(config: TrainerConfig) -> NoRelease | None:
    document = config.section.document
    found = document.start.program.no_release if document.start is not None and _is_script(document) else None
    return None if found is None or found.framework in config.context.at_commits else found


def _is_script(document: Document) -> bool:
    """Whether the run's document is its script. In a config that the script reads, no call has a place."""
    return document.syntax == "python" and document.path.endswith((".py", ".ipynb"))


def _follows(last: tuple[int, ...], first: tuple[int, ...]) -> bool:
    """Whether the second release is the next after the first: a commit between the two may take what both take."""
    return first == (*last[:-1], last[-1] + 1) or (last, first) == ((0, 29), (1, 0))


def _is_of(stated: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a stated release is `last` or an older one; 4.57.3 is of 4.57."""
    return stated[: len(last)] <= last


def _outdated_arguments(config: TrainerConfig) -> Iterator[Issue]:
    """What a Python script gives its trainer and the release in use does not take, or the newest if none is known."""
    document, never = config.section.document, _never_taken(config)
    found = document.start.program.outdated if document.start is not None and _is_script(document) else ()
    for one in found:
        if never is not None and one.framework == never.framework:
            continue  # whatever it gives instead, no release takes all of it
        stated = config.stated.get(one.framework)
        if one.framework in config.context.at_commits or (stated is not None and _is_of(stated, one.last)):
            continue
        names = " and no ".join(f"`{name}`" for name in one.names)
        message = f"{one.trainer} takes no {names} since {one.framework} {one.since}: {one.instead}"
        severity = "warning" if stated is not None else "info"
        yield Issue("renamed-key", message, document.path, (one.trainer, *one.names), severity)  # at the call


def refused_arguments(config: TrainerConfig) -> Iterator[Issue]:
    """What classes of transformers, TRL and PEFT refuse in a Python script. A release that takes it may be in use."""
    document = config.section.document
    found = document.start.program.refused if document.start is not None and _is_script(document) else ()
    for one in found:
        stated = config.stated.get(one.library)
        if one.library in config.context.at_commits or (stated is not None and stated < one.since):
            continue
        severity = "warning" if one.since and stated is None else one.severity
        at = (one.name,) if one.name in document.value and one.code == "unknown-key" else (one.called, one.name)
        yield Issue(one.code, one.message, document.path, at, severity)


def _old_strategy(config: TrainerConfig) -> Iterator[Issue]:
    """`evaluation_strategy`, which training_args.py of transformers 4.50.3 has and 4.51.3 has not. Under a stated
    release a file is told in meant.py."""
    key, target, section = "evaluation_strategy", "eval_strategy", config.section
    start, stated = section.document.start, config.stated.get("transformers")
    is_own = start is not None and key in start.accepted.defined
    if key not in section.value or target in section.value or is_own or config.declares(key):
        return
    is_python = section.document.syntax == "python"
    if "transformers" in config.context.at_commits or (stated is not None and (not is_python or stated < (4, 51))):
        return
    message = f"`{key}` is gone since transformers 4.51: use `{target}`"
    severity = "info" if stated is None else "warning"
    yield section.issue("renamed-key", message, key, severity=severity, on_key=True, suggestion=target)


def _typos(config: TrainerConfig, known: dict[str, Any]) -> Iterator[Issue]:
    section = config.section
    defined = section.document.start.accepted.defined if section.document.start is not None else frozenset()
    is_python, is_command = (section.document.syntax == syntax for syntax in ("python", "shell"))
    meant = {key: known[key] for key in known if key in _CLASS_ARGUMENTS} if is_python else known
    for key in section.value:
        if isinstance(key, str) and key not in known and key not in defined:
            if is_command and any(name.startswith(key) for name in defined):
                continue  # argparse takes the start of a flag for the flag
            near = slip_of(key, meant, section.value)
            if near and _fits(near, section.value[key]) and not config.declares(key):
                message = f"unknown key `{key}`: did you mean `{near}`?"
                yield section.issue("unknown-key", message, key, severity="warning", on_key=True, suggestion=near)


def _refused(config: TrainerConfig, known: dict[str, Any]) -> Iterator[Issue]:
    """Flags of a command that the program that it starts does not define, or that begin several of its flags."""
    section, start = config.section, config.section.document.start
    if start is None:
        return
    for key, begun in start.accepted.ambiguous.items():
        flag, program = flag_of(section.document, key), start.program.entry
        others = ", ".join(f"`--{name}`" for name in begun[:3]) + (" and others" if len(begun) > 3 else "")
        message = f"`{flag}` may stand for {others}: the parser of {program} refuses a flag that is cut so short"
        yield section.issue("unknown-key", message, key, on_key=True)
    for name in sorted(start.accepted.without_value):
        own = (key for key in section.value if start.accepted.names.get(key, key) == name)
        keys = [key for key in own if section.value[key] is True and not is_brought(section.document, (key,))]
        flag, program = f"--{name.replace('_', '-') if name in start.accepted.dashed else name}", start.program.entry
        message = f"`{flag}` stands without a value: the parser of {program} expects one and refuses the command"
        yield section.issue("bad-value", message, *keys[:1], on_key=bool(keys))
    gone = {name for name, schema in known.items() if "x-memlint-removed-in" in schema}
    taken = start.accepted.defined if start.accepted.is_own else (*start.accepted.defined, *known)
    for key in section.value:
        if key in start.accepted.refused:
            near = nearest(key, [name for name in taken if name not in section.value and name not in gone])
            hint = f"did you mean `--{near}`? " if near else ""
            flag = flag_of(section.document, key)
            message = (
                f"unknown flag `{flag}`: {hint}{start.program.entry} defines no such flag, and its parser refuses it"
            )
            yield section.issue("unknown-key", message, key, on_key=True, suggestion=near)


def _nulls(config: TrainerConfig) -> Iterator[Issue]:
    """Arguments that end the run where they are null. Of a file that its script reads by itself, nothing is said, nor
    of arguments that a class of the repository fills in."""
    for key in sorted(config.section.value.keys() & ENDS_THE_RUN):
        if (
            config.section.value[key] is None
            and ends_the_run(key, config.section.value)
            and key not in config.context.repository.filled_arguments()
            and not _is_for_a_command(config, key)
        ):
            how = "no member of its enumeration" if key in ENUMERATED else "compared with a number"
            message = f"`{key}` is null: None is {how}, and the run ends there; leave the key out for its default"
            yield config.section.issue("wrong-type", message, key)


def _is_for_a_command(config: TrainerConfig, key: str) -> bool:
    """Whether a script has the value from elsewhere than its call, such as an option's default, and no command of the
    repository starts it: who does gives the options that have none."""
    document = config.section.document
    if document.syntax != "python" or document.start is None or document.start.values.is_commanded:
        return False
    call, place = document.start.values.sources.get(()), document.places.get((key,))
    if call is None or place is None:
        return True
    within = call[0] <= place.value.start and place.value.end <= call[1]
    return not within or document.text[place.value.start : place.value.end] != "None"


def _fits(key: str, value: Any) -> bool:
    """Whether a value with others in it is one that `key` takes: a script's `dataset: {path: ...}` is no `datasets`."""
    return not isinstance(value, (dict, list)) or not schema_issues({key: value}, "", SCHEMA)


def conflicts(config: TrainerConfig) -> tuple[Issue, ...]:
    """`fp16` with `bf16`, 4 with 8 bit, and either of these without an adapter: the frameworks refuse them
    (training_args.py, model_config.py, trainer_utils.py).

    Two half types that are plainly true are PRE011's, which has a fix.
    """
    found = []
    for one, other in (("bf16", "fp16"), ("bf16_full_eval", "fp16_full_eval"), ("load_in_4bit", "load_in_8bit")):
        both = [config.section.value.get(key) for key in (one, other)]
        plain = one != "load_in_4bit" and all(value is True for value in both)
        if all(map(as_bool, both)) and not plain:
            message = f"`{one}` and `{other}` cannot both be true: the arguments are refused"
            found.append(config.section.issue("conflict", message, other))
    if key := trains_quantised_weights(config):
        found.append(config.section.issue("conflict", f"`{key}`: {REFUSED.format(key[8])}", key))
    return tuple(found)
