"""Issues of a command of OpenRLHF: flags and values that its argparse refuses."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import as_int, interpolated, value_at
from memlint.formats.misspelled_flags import foreign_flags, misspelled_flags
from memlint.formats.openrlhf import placement
from memlint.formats.openrlhf.config import OpenRLHFConfig
from memlint.formats.openrlhf.keys import KEYS
from memlint.formats.openrlhf.recognise import SCHEMA
from memlint.formats.schema.validate import compiled_schema, schema_issues


def openrlhf_issues(config: OpenRLHFConfig) -> tuple[Issue, ...]:
    section = config.section
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    misspelled = tuple(misspelled_flags(section, SCHEMA))
    foreign = foreign_flags(section, SCHEMA, misspelled, "OpenRLHF") if _is_installed(config) else ()
    typed = (issue for issue in found if _is_reported(issue, config))
    return (
        *misspelled,
        *foreign,
        *(() if not misspelled and _is_of_a_fork(config) else typed),
        *_stage(config),
        *_refused_placements(config),
    )


def _stage(config: OpenRLHFConfig) -> Iterator[Issue]:
    """A stage that DeepSpeed does not have (deepspeed 0.19 runtime/zero/config.py, ZeroStageEnum)."""
    stage, written = as_int(config.raw("ds.zero_stage")), config.written("ds.zero_stage")
    if written is not None and stage is not None and not 0 <= stage <= 3:
        yield config.section.issue("bad-value", f"`{written}` must be 0, 1, 2 or 3, got {stage}", written)


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
    value = value_at(config.section.value, issue.pointer)
    key = str(issue.pointer[0]) if issue.pointer else ""
    typed = key in KEYS and KEYS[key].kind in ("whole", "number")
    return typed and isinstance(value, str) and not interpolated(value) and KEYS[key].parsed(value) is None
