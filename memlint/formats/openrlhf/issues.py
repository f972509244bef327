"""Issues of a command of OpenRLHF: flags and values that its argparse refuses."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import as_int, interpolated, value_at
from memlint.formats.key_releases import key_releases, refused_keys
from memlint.formats.misspelled_flags import foreign_flags, misspelled_flags
from memlint.formats.openrlhf import placement
from memlint.formats.openrlhf.config import OpenRLHFConfig, has_copy
from memlint.formats.openrlhf.keys import KEYS
from memlint.formats.openrlhf.recognise import SCHEMA
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.source.layout import key_text, written_text


def openrlhf_issues(config: OpenRLHFConfig) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    misspelled = tuple(misspelled_flags(section, SCHEMA))
    foreign = foreign_flags(section, SCHEMA, misspelled, "OpenRLHF") if _is_installed(config) else ()
    typed = (issue for issue in found if _is_reported(issue, config))
    return (
        *misspelled,
        *foreign,
        *_of_other_releases(config, (*misspelled, *foreign)),
        *(() if not misspelled and (_is_of_a_fork(config) or has_copy(config.context)) else typed),
        *_words_given(config),
        *_stage(config),
        *_refused_placements(config),
    )


# Flags of two numbers (`nargs=2`), by the end of their names: 0.3.8 to 0.11.2 openrlhf/cli/train_*.py.
_OF_TWO = ("betas", "eps_clip_low_high", "clip_range", "dynamic_filtering_range", "dynamic_filtering_reward_range")
_MOST_BOUNDS = {"algo.advantage.is_correction_threshold": 2}  # train_ppo_ray.py:642


def _words_given(config: OpenRLHFConfig) -> Iterator[Issue]:
    """A flag with more or fewer words than its parser takes: a pair of one, a switch with a word behind it, a dash
    where the flag's name has `_`."""
    section = config.section
    known = compiled_schema(SCHEMA).schema["properties"]
    for key, value in section.value.items():
        words = value if isinstance(value, list) else [value]
        most = _MOST_BOUNDS.get(str(key), 0)
        pair = str(key) in known and str(key).endswith(_OF_TWO)
        if any(map(_is_filled_in, words)):
            continue
        if pair and (len(words) != 2 or not all(isinstance(word, (int, float)) for word in words)):
            yield section.issue("bad-value", f"`{key}` takes two numbers; OpenRLHF refuses to start", str(key))
        elif most and len(words) > most:
            yield section.issue(
                "bad-value", f"`{key}` takes at most {most} numbers; OpenRLHF refuses to start", str(key)
            )
        elif _has_dash(config, str(key)):
            message = f"OpenRLHF's flags have `_` where this one has `-`: its parser knows `--{key}` alone"
            yield section.issue("unknown-key", message, str(key), on_key=True)
        elif _is_switch_with_word(config, str(key), value):
            message = f"`{key}` is a switch and takes no word; OpenRLHF's parser refuses the command"
            yield section.issue("bad-value", message, str(key))


def _has_dash(config: OpenRLHFConfig, key: str) -> bool:
    """Whether the flag is written with `-` where its name has `_`: argparse tells them apart."""
    text = key_text(config.section.document, (key,)).lstrip("-")
    return "-" in text and text.replace("-", "_") == key and _is_installed(config)


def _is_switch_with_word(config: OpenRLHFConfig, key: str, value: object) -> bool:
    """`--packing_samples True`: argparse has the word left over."""
    if not isinstance(value, bool) or not _is_installed(config):
        return False
    schema = compiled_schema(SCHEMA).schema["properties"].get(key, {})
    text = written_text(config.section.document, (key,)).strip("\"'").lower()
    return schema == {"type": "boolean"} and text in ("true", "false")


def _stage(config: OpenRLHFConfig) -> Iterator[Issue]:
    """A stage that DeepSpeed does not have (deepspeed 0.19 runtime/zero/config.py, ZeroStageEnum)."""
    stage, written = as_int(config.raw("ds.zero_stage")), config.written("ds.zero_stage")
    if written is not None and stage is not None and not 0 <= stage <= 3:
        yield config.section.issue("bad-value", f"`{written}` must be 0, 1, 2 or 3, got {stage}", written)


def _of_other_releases(config: OpenRLHFConfig, told: tuple[Issue, ...]) -> Iterator[Issue]:
    """Flags that the program does not define in the release that somebody states, or in none beside the others."""
    table = key_releases("openrlhf", config.program) if _is_installed(config) else None
    if table is None or has_copy(config.context):
        return
    slips = {issue.pointer for issue in told if issue.severity == "error"}
    keys = (str(key) for key in config.section.value if (key,) not in slips)
    refusal = table.refusal(keys, config.context.versions.get("openrlhf", ()), abbreviates=True)
    if refusal is not None:
        program = f"`train_{config.program}` of OpenRLHF"
        yield from refused_keys(config.section, table, refusal, program, _newer_name)


def _newer_name(key: str) -> str:
    """The flag of 0.10.2 and later for one of the older releases; "" where there is none."""
    name = KEYS[key].name if key in KEYS else ""
    return name if name != key else ""


def _is_installed(config: OpenRLHFConfig) -> bool:
    """Whether a command runs a program of OpenRLHF that is no file of the repository's own."""
    start = config.section.document.start
    return start is not None and not start.accepted.defined and "openrlhf" in start.program.entry


def _is_of_a_fork(config: OpenRLHFConfig) -> bool:
    """Whether the command has a flag that no release defines: a fork's values may have other types too."""
    return bool(flags_of_no_release(config))


def flags_of_no_release(config: OpenRLHFConfig) -> frozenset[str]:
    """The command's flags that no release of OpenRLHF defines."""
    known = frozenset(compiled_schema(SCHEMA).schema["properties"])
    return frozenset(map(str, config.section.value)) - known


def is_own_copy(config: OpenRLHFConfig) -> bool:
    """Whether the program that the command starts is a file of the repository."""
    start = config.section.document.start
    return start is not None and bool(start.accepted.defined)


def _refused_placements(config: OpenRLHFConfig) -> Iterator[Issue]:
    """What `train_ppo_ray` asserts before it starts (cli/train_ppo_ray.py:43 and :57; 0.5.9 the same). A repository
    with a copy of the program may have changed it."""
    start = config.section.document.start
    if not config.uses_ray or (start is not None and start.accepted.defined):
        return
    actor, reference = placement.gpus_of(config, "actor"), placement.gpus_of(config, "ref")
    shared = placement.has_reference(config) and placement.is_with_actor(config, "ref")
    if shared and actor and reference and actor != reference:
        message = (
            f"the reference model has {reference[0]} GPUs and the policy {actor[0]}: on the same ones both need as many"
        )
        yield _conflict(config, "ref.num_gpus_per_node", message)
    engines, ranks = config.whole("vllm.num_engines"), config.whole("vllm.tensor_parallel_size")
    if placement.shares_cards_with_vllm(config) and actor and engines and ranks and actor[0] != engines * ranks:
        message = f"{engines} engines on {ranks} GPUs each are not the {actor[0]} GPUs that they share with the policy"
        yield _conflict(config, "vllm.num_engines", message)


def _conflict(config: OpenRLHFConfig, key: str, message: str) -> Issue:
    written = config.written(key) or config.written("train.colocate_all") or config.written("train.colocate_actor_ref")
    return config.section.issue("conflict", f"{message}; OpenRLHF refuses to start", written or key)


def _is_reported(issue: Issue, config: OpenRLHFConfig) -> bool:
    """A value that argparse cannot read, as text where a number is read, or a word that is none of the choices."""
    value = value_at(config.section.value, issue.pointer)
    return issue.code in ("wrong-type", "bad-value") and value is not None and not _is_filled_in(value)


def _is_filled_in(value: object) -> bool:
    return interpolated(value) or (isinstance(value, list) and any(map(interpolated, value)))
