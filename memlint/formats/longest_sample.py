"""The longest sample of the data, where the user states it: no config says how long its data really are.

    memlint check grpo.yaml --longest-sample 700

Sequences are at most as long as the longest sample, and where a run writes completions its prompts are. Packed and
padded sequences keep the length that the config gives them, whatever is in them.
"""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.run import Origin, Run, replace, writes_completions


class LongestSample(NamedTuple):
    """`tokens`: of the longest sample; of its prompt alone where the run writes completions."""

    tokens: int
    origin: Origin


def with_longest_sample(run: Run, longest: LongestSample) -> Run:
    """The run with no sequence longer than its data make it."""
    sequence = run.sequence
    if run.purpose != "train" or sequence.packing is True or not sequence.length_is_bound:
        return run
    changes: dict[str, Any] = {}
    whole = longest.tokens
    if writes_completions(run):
        prompt = _at_most(sequence.max_prompt_length, longest.tokens)
        changes["sequence.max_prompt_length"] = prompt
        whole = prompt + sequence.max_new_tokens
    if isinstance(sequence.source_length, int) and sequence.source_length:
        changes["sequence.source_length"] = _at_most(sequence.source_length, longest.tokens)
    changes["sequence.length"] = _at_most(sequence.length, whole)
    changed = {name: value for name, value in changes.items() if value != getattr(sequence, name.partition(".")[2])}
    origins = {**run.origins, **dict.fromkeys(changed, longest.origin)}
    return replace(run, changed)._replace(origins=origins)


def _at_most(length: object, longest: int) -> int:
    return min(length, longest) if isinstance(length, int) else longest
