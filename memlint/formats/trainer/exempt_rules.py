"""Which rules say nothing of a Trainer document, and why: one row for each reason.

A rule judges arguments as the Trainer, TRL and accelerate take them. Where a program does something else with them, or
a file that cannot be read may hold the missing half, the rule has no ground to stand on.
"""

from __future__ import annotations

from collections.abc import Callable

from memlint._record import NamedTuple
from memlint.formats.base import Context
from memlint.formats.fields import as_bool
from memlint.formats.trainer.own_engine import is_loop
from memlint.formats.trainer.reader import is_brought, is_record, reader_of
from memlint.rule_groups import OF_TWO_FILES
from memlint.source.document import NOT_READ, Document, Start


class _Case(NamedTuple):
    """What is asked about: a rule's finding in a document."""

    rule: str
    document: Document
    context: Context

    @property
    def start(self) -> Start | None:
        """What the command or script of the document starts; None for a config file."""
        return self.document.start


class _Exemption(NamedTuple):
    """`rules`, by id or by the beginning of ids, say nothing of a document where `holds`."""

    rules: tuple[str, ...]
    holds: Callable[[_Case], bool]


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """Whether `rule` says nothing of this document."""
    case = _Case(rule, document, context)
    return any(rule.startswith(row.rules) and row.holds(case) for row in _EXEMPTIONS)


def _trains_in_own_loop(case: _Case) -> bool:
    """A loop of the program's own has neither the Trainer nor TRL nor accelerate's checks, and DeepSpeed itself leaves
    `auto` out (deepspeed 0.19.8 runtime/config_utils.py:58)."""
    return is_loop(case.start)


def _lacks_a_file(case: _Case) -> bool:
    """A command names a file with arguments that cannot be read: it may hold those that the command lacks."""
    return case.start is not None and any(NOT_READ in reason for reason in case.start.values.unknown.values())


def _assigns_arguments_later(case: _Case) -> bool:
    """The program assigns to arguments after they are made, when the constructor's checks are over."""
    return case.start is not None and bool(case.start.accepted.set_later)


def _has_own_trainer(case: _Case) -> bool:
    """The script that reads the file, or the one that a command names, trains with a class of its own."""
    start = case.start
    if start is not None and start.program.has_own_trainer:
        return True
    file = case.document if start is None else start.values.lone_config
    return isinstance(file, Document) and reader_of(file, case.context).has_own_trainer


def _groups_prompts_itself(case: _Case) -> bool:
    """Its batch holds prompts, and a TRL before 0.19 compares nothing."""
    return case.start is not None and case.start.program.writes_groups and "trl" not in case.context.versions


def _options_say_all(case: _Case) -> bool:
    """Options of `accelerate launch` say all that its launch file would say of DeepSpeed and of precision. Of options
    accelerate keeps no list to hold against a DeepSpeed file (accelerate 1.15 commands/launch.py,
    deepspeed_fields_from_accelerate_config)."""
    launch_file = case.start.machine.launch_file if case.start is not None else None
    if not isinstance(launch_file, Document) or launch_file.start is None or not isinstance(launch_file.value, dict):
        return False
    section = launch_file.value.get("deepspeed_config")
    said = {*(section if isinstance(section, dict) else ()), *({"mixed_precision"} & launch_file.value.keys())}
    return said <= launch_file.start.accepted.defined


def _asks_accelerate_for_precision(case: _Case) -> bool:
    """A script makes an Accelerator: `accelerate launch --mixed_precision` may say the precision."""
    return case.document.syntax == "python" and "Accelerator(" in case.document.text


def _launch_file_says_precision(case: _Case) -> bool:
    """No command here says which launch file is in force, and one of the repository's says the precision."""
    if not _may_be_launched_otherwise(case):
        return False
    document, context = case.document, case.context
    found = (context.read(name, document.path) for name in context.repository.launch_files(document.path))
    values = (one.value for one in found if isinstance(one, Document))
    return any(isinstance(value, dict) and value.get("mixed_precision") in ("bf16", "fp16") for value in values)


def _may_be_launched_otherwise(case: _Case) -> bool:
    """Whether a launch file may be in force that no command here names: for a loop of the program's own, or a config
    that nothing is known to launch."""
    if case.start is not None:
        return is_loop(case.start)
    return _is_read_by_script(case) or not case.context.repository.launch_commands(case.document.path)


def _is_read_by_script(case: _Case) -> bool:
    return case.start is None and reader_of(case.document, case.context).kind == "script"


def _script_chooses_dtype(case: _Case) -> bool:
    """The script that reads the file may load the weights in half as many bytes, and train some of them."""
    return not case.document.value.keys() & {"dtype", "torch_dtype"} and _is_read_by_script(case)


def _records_all_arguments(case: _Case) -> bool:
    """A run wrote the file: all arguments are there, whatever their effect."""
    return is_record(case.document.value)


# Rules about a key without effect: that key, and the one that decides.
_WITHOUT_EFFECT = {
    "TRN003": ("num_train_epochs", "max_steps"),
    "TRN018": ("save_steps", "save_strategy"),
    "EVA004": ("eval_steps", "eval_strategy"),
    "TRN005": ("warmup_ratio", "warmup_steps"),
}


def _program_may_decide(case: _Case) -> bool:
    """A program that is not in the repository may have a default of its own for the key that decides."""
    decides = _WITHOUT_EFFECT[case.rule][1]
    if case.start is None or not case.start.program.is_foreign:
        return False
    return decides not in case.document.value or is_brought(case.document, (decides,))


def _script_means_it(case: _Case) -> bool:
    """A script's values are changed by commands, or the script knows what it does with one of the two keys."""
    if case.document.syntax != "python":
        return False
    is_commanded = case.start is not None and case.start.values.is_commanded
    return is_commanded or any(_is_meant(case.document, key) for key in _WITHOUT_EFFECT[case.rule])


# What a script writes right before a value that is the whole of an argument, a constant or a default.
_BEFORE_A_VALUE = ("=", ":", "(", ",", "[")
_BEFORE_A_DEFAULT = ("default=", "default =")


def _is_meant(document: Document, key: str) -> bool:
    """Whether a script knows what it does with a key: it chooses or computes the value (`"steps" if n > 0 else "no"`,
    `max(1, n)`), has it as an option whose default is for other starts, or reads it again (`self.args.eval_steps`)."""
    if document.start is not None and key in document.start.accepted.read_back:
        return True
    here = document.places.get((key,))
    if here is None or here.value == document.places[()].value:
        return key in document.value
    before = document.text[max(0, here.value.start - 80) : here.value.start].rstrip(" \t\r\n\"'")
    return not before.endswith(_BEFORE_A_VALUE) or before.endswith(_BEFORE_A_DEFAULT)


def _own_parser_has_defaults(case: _Case) -> bool:
    """`bf16` and `fp16` are defaults of a program's own parser, which may ask accelerate for its precision before."""
    if case.start is None or not case.start.accepted.is_own:
        return False
    written = (key for key in ("bf16", "fp16") if as_bool(case.document.value.get(key)))
    return all(is_brought(case.document, (key,)) for key in written)


def _defines_the_lengths(case: _Case) -> bool:
    """The two options are flags of the program's own."""
    return case.start is not None and bool(case.start.accepted.defined & {"max_prompt_length", "rpo_alpha"})


def _computes_the_loss(case: _Case) -> bool:
    """The repository's own trainer computes the loss: its code asks for that word."""
    value = case.document.value
    loss = value.get("loss_type", "sigmoid") if isinstance(value, dict) else None
    return isinstance(loss, str) and case.context.repository.knows_word("loss_type", loss)


_TARGETS = ("lora_target_modules", "target_modules", "lora_target")  # one key's spellings, as the key table has them
# Rules about values that a command gives itself: those of its program are the program's.
_ALL_KEYS_WRITTEN = {"PEF005": _TARGETS, "TRN005": _WITHOUT_EFFECT["TRN005"]}
# The same of rules about two keys that are said where one of them is written.
_ONE_KEY_WRITTEN = {
    "TRL029": ("max_prompt_length", "rpo_alpha"),
    "TRN004": ("warmup_ratio", "warmup_steps"),
}


def _is_said_elsewhere(case: _Case) -> bool:
    """The keys stand in the command's program, or in a file that the command names: the finding is said there."""
    rule, document = case.rule, case.document
    if document.syntax != "shell":
        return False
    if is_brought(document, _ALL_KEYS_WRITTEN.get(rule, ())):
        return True
    if is_brought(document, _WITHOUT_EFFECT.get(rule, ())[:1]):
        return True  # the key without effect is a default of the program's, for other starts
    keys = [key for key in _ONE_KEY_WRITTEN.get(rule, ()) if key in document.value]
    return bool(keys) and all(is_brought(document, (key,)) for key in keys)


def _makes_adapter_itself(case: _Case) -> bool:
    """A Python script, or the program that reads the file, makes its adapter without TRL's scripts."""
    if case.document.syntax == "python":
        return True
    reader = reader_of(case.document, case.context) if case.start is None else case.start.accepted
    return reader.makes_adapter


def _quantises_itself(case: _Case) -> bool:
    """Whether a program of the repository reads TRL's arguments: it decides itself whether a model that trains is
    quantised, while TRL's scripts do so wherever a key asks for it (trl 1.16.0 scripts/sft.py:108)."""
    if case.start is not None:
        return bool(case.start.program.file)
    return bool(case.context.repository.argument_parsers())


def _has_own_targets(case: _Case) -> bool:
    """A program or a class of the repository in place of TRL's takes the targets: one in a list stays a list there, and
    a word may stand for several (alignment-handbook's forks look the linear layers up for `all`)."""
    start, value = case.start, case.document.value if isinstance(case.document.value, dict) else {}
    key = next((name for name in _TARGETS if name in value), "")
    is_about_a_list = case.rule == _ONE_TARGET_IN_A_LIST
    if is_about_a_list and case.document.syntax == "python" and isinstance(value.get(key), list):
        return True  # a script hands its list to LoraConfig, which keeps it
    if is_about_a_list and start is not None and start.accepted.makes_adapter:
        return True
    is_asked = bool(key) and (is_about_a_list or isinstance(value[key], str))
    is_own = start is not None and key in start.accepted.defined
    return is_asked and (is_own or bool(case.context.repository.field_annotations(key)))


def _gathers_adapters_itself(case: _Case) -> bool:
    """The program saves its adapters with a function of its own that gathers them (LLaVA 1.2.2 llava/train/train.py,
    FastChat 0.2.36 fastchat/train/train_lora.py: `get_peft_state_maybe_zero_3`)."""
    value = case.document.value
    is_adapter = isinstance(value, dict) and any(as_bool(value.get(key)) for key in _USES_ADAPTER)
    return is_adapter and any(name.endswith("maybe_zero_3") for name in case.context.repository.own_functions(""))


_USES_ADAPTER = ("lora_enable", "use_lora", "use_peft")
_ONE_TARGET_IN_A_LIST = "PEF025"
# Rules about what the Trainer, TRL and accelerate make of their arguments.
_TRAINER_RULES = (
    *("EVA", "TRN", "TRL", "DSP001", "DSP002", "DSP003", "DSP004", "DSP011", "DSP016", "ACC009", "ACC011"),
    *("FSD009", "FSD013", "FSD014", "PAR005", "PAR013", "OFF003", "OPT004", "OPT009", "OPT011", "OPT012", "SAV"),
)
# Rules about what TrainingArguments refuses when it is made (5.23.0 training_args.py, __post_init__).
_CONSTRUCTOR_RULES = (
    *("TRN001", "TRN002", "TRN007", "TRN009", "TRN012", "TRN013", "TRN014", "TRN015", "TRN019"),
    *("PRE008", "PRE011"),
)

_EXEMPTIONS = (
    _Exemption(_TRAINER_RULES, _trains_in_own_loop),
    _Exemption(("EVA", "SAV", "TRL", "TRN"), _lacks_a_file),  # rules about several arguments together
    _Exemption(_CONSTRUCTOR_RULES, _assigns_arguments_later),
    _Exemption(OF_TWO_FILES, _has_own_trainer),
    _Exemption(("TRL011",), _groups_prompts_itself),
    _Exemption(("ACC009",), _options_say_all),
    _Exemption(("PRE003",), _asks_accelerate_for_precision),
    _Exemption(("PRE003",), _launch_file_says_precision),
    _Exemption(("MEM006",), _script_chooses_dtype),
    _Exemption(tuple(_WITHOUT_EFFECT), _records_all_arguments),
    _Exemption(tuple(_WITHOUT_EFFECT), _program_may_decide),
    _Exemption(tuple(_WITHOUT_EFFECT), _script_means_it),
    _Exemption(("ACC011",), _own_parser_has_defaults),
    _Exemption(("TRL029",), _defines_the_lengths),
    _Exemption(("TRL019",), _computes_the_loss),
    _Exemption(("SAV002",), _gathers_adapters_itself),
    _Exemption((*_ALL_KEYS_WRITTEN, *_WITHOUT_EFFECT, *_ONE_KEY_WRITTEN), _is_said_elsewhere),
    _Exemption(("PEF018", "PEF019", "PEF020"), _makes_adapter_itself),  # what TRL's own scripts make of a key
    _Exemption(("PEF020",), _quantises_itself),
    _Exemption(("PEF004", _ONE_TARGET_IN_A_LIST), _has_own_targets),  # what TRL's ModelConfig makes of the targets
)
