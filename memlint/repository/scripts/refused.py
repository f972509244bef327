"""Finds flags that a program refuses: argparse exits with status 2 at an undefined flag and at one without the value
that it takes, HfArgumentParser raises ValueError (transformers 5.23.0 hf_argparser.py:354).

Only programs with a complete definition are judged (`completeness.py`). Besides its own flags, a program that parses
classes of transformers, TRL and PEFT accepts their fields, here those of every release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from memlint.formats.trainer.argument_classes import arguments_taken, is_known
from memlint.formats.trainer.argument_names import OF_TRL, TRAINING_ARGUMENTS
from memlint.repository.scripts.commands import LaunchCommand, Option, options
from memlint.repository.scripts.definitions import TrainingProgram
from memlint.repository.scripts.document import keys_of
from memlint.source.shell.text import Word

# Fields of these classes that the schema does not list, as they are gone for long or no run is read by them
# (transformers 3.5.1, 4.10, 4.30, 4.46 and 5.23; trl 0.9.6, 0.12.2, 0.16 to 1.16).
_GONE = frozenset(
    ("adap_kl_ctrl", "backward_batch_size", "base_model", "base_model_attribute_name", "compare_steps")
    + ("config", "dispatch_batches", "early_stopping", "evaluate_during_training", "evaluation_strategy")
    + ("forward_batch_size", "generation_config", "generation_max_length", "generation_num_beams")
    + ("global_backward_batch_size", "global_batch_size", "horizon", "init_kl_coef", "is_peft_model")
    + ("kl_penalty", "max_target_length", "non_eos_penalty", "optimize_cuda_cache", "optimize_device_cache")
    + ("penalty_reward_value", "ppo_epochs", "predict_with_generate", "push_to_hub_if_best_kwargs")
    + ("query_dataset", "ratio_threshold", "reward_model", "score_clip", "sharded_ddp", "sortish_sampler")
    + ("split_batches", "steps", "target", "target_kl", "task_name", "use_ipex", "use_liger_loss")
    + ("use_score_norm", "use_score_scaling", "vllm_enable_prefix_caching", "vllm_guided_decoding_regex")
    + ("xpu_backend",)
)


def refused_flags(command: LaunchCommand, program: TrainingProgram, only_in: str = "") -> frozenset[str]:
    """The flags of the command that the program refuses; none if its definition is incomplete. `only_in`: the file that
    they must stand in, where the command is another script's, which is told of its own flags."""
    if not program.is_complete or not (program.flags or program.classes):
        return frozenset()
    known = frozenset(takes(program))
    given = (one for one in options(command.arguments)[0] if not only_in or _stands_in(one, only_in))
    return frozenset(one.name for one in given if _is_refused(one, program, known))


def ambiguous_flags(
    command: LaunchCommand, program: TrainingProgram, only_in: str = ""
) -> Mapping[str, tuple[str, ...]]:
    """The flags of the command that begin several of the program's, with those: argparse exits. None of a program whose
    definition is incomplete; of TrainingArguments the fields of transformers 5.23 count."""
    if not program.is_complete:
        return {}
    parses_class = program.parses != "argparse" and not _CLASSES.isdisjoint(program.classes)
    of_class = TRAINING_ARGUMENTS if parses_class else frozenset()
    certain, known = sorted({*program.flags, *of_class}), frozenset(takes(program))
    found = {}
    for one in options(command.arguments)[0]:
        begun = tuple(name for name in certain if name.startswith(one.name))
        is_here = _is_named(one) and (not only_in or _stands_in(one, only_in))
        if is_here and len(begun) > 1 and one.name not in known:
            found[one.name] = begun
    return found


# What follows a flag without a value: another flag, or the command's end. A variable that is empty here may not be.
_NOTHING = re.compile(r"(?:[ \t]|\\\r?\n)*(?:--|[\n;&|>]|\Z)")


def flags_without_value(
    command: LaunchCommand, program: TrainingProgram, read: Callable[[str], str | None], only_in: str = ""
) -> frozenset[str]:
    """The flags that take one value and are given none: argparse exits, "expected one argument" (Python 3.12). `read`:
    a file's text."""
    if program.parses != "argparse" or not program.is_complete:
        return frozenset()
    bare = (one for one in options(command.arguments)[0] if not one.values and _is_named(one))
    needing = (one for one in bare if one.name in program.flags and program.flags[one.name].needs_value)
    return frozenset(
        one.name for one in needing if (not only_in or _stands_in(one, only_in)) and _nothing_follows(one.flag, read)
    )


def _nothing_follows(flag: Word, read: Callable[[str], str | None]) -> bool:
    text = read(flag.at.path) if flag.at is not None else None
    return text is not None and flag.at is not None and _NOTHING.match(text, flag.at.end) is not None


_CLASSES = frozenset(("TrainingArguments", "Seq2SeqTrainingArguments", *OF_TRL))


def _stands_in(option: Option, path: str) -> bool:
    return option.flag.at is not None and option.flag.at.path == path


def takes(program: TrainingProgram) -> Iterator[str]:
    """The names of all flags that the program takes."""
    yield from ("help", *program.flags)
    if program.parses == "argparse":
        return
    if program.classes and all(map(is_known, program.classes)):
        yield from arguments_taken("TrainingArguments").union(*map(arguments_taken, program.classes))
        return
    yield from keys_of("trainer")
    yield from _GONE


def _is_refused(option: Option, program: TrainingProgram, known: Collection[str]) -> bool:
    """Whether no flag has this name, nor begins with it: argparse completes an unambiguous prefix."""
    if not _is_named(option) or not option.name.replace(".", "_").isidentifier():
        return False
    plain = option.name.removeprefix("no_") if program.parses != "argparse" else option.name
    return not any(name.startswith((option.name, plain)) for name in known)


def _is_named(option: Option) -> bool:
    """Whether the flag's name is known: that of `--name=$VALUE` is, too."""
    first = option.flag.pieces[0] if option.flag.pieces else None
    if not option.flag.text.startswith("--") or first is None:
        return False
    return not option.flag.unknown or (option.is_joined and not first.unknown and "=" in first.text)
