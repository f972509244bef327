"""Bounds on a framework's version that follow from a file's keys: the newest release that still has each key.

HfArgumentParser and TrlParser refuse a key that no argument has (transformers 5.23 hf_argparser.py, parse_dict), so a
file with `max_seq_length` cannot be for the TRL of today. A version that the user or the repository states always
comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from memlint._record import NamedTuple
from memlint.formats.fields import Section
from memlint.formats.schema.validate import compiled_schema
from memlint.run import Origin

Version = tuple[int, ...]

# The last release before each one that starts a new count.
_LAST_BEFORE: Mapping[tuple[str, Version], Version] = {("transformers", (5, 0)): (4, 57), ("trl", (1, 0)): (0, 29)}
# Keys that scripts declare for themselves, or that were accepted long after they were announced to go.
NO_EVIDENCE = frozenset({"use_flash_attention_2", "model_max_length"})
# Keys that are gone for so long that the schema does not list them: transformers 4.50.3 training_args.py has it.
_GONE: Mapping[str, Mapping[str, tuple[str, Version]]] = {
    "trainer.json": {"evaluation_strategy": ("transformers", (4, 50))}
}


class Evidence(NamedTuple):
    """What a key proves about a framework: `version` is the newest release that still has `key`."""

    version: Version
    key: str
    origin: Origin


def evidence(section: Section, schema: str, frameworks: Iterable[str]) -> dict[str, Evidence]:
    """The lowest such bound by framework; a framework without a bound is left out."""
    found: dict[str, Evidence] = {}
    start = section.document.start
    own = start.accepted.defined if start is not None else frozenset()
    gone = {key: last for key, last in _GONE.get(schema, {}).items() if key not in own}
    removed = {**_removed(schema), **gone}
    for key in section.value.keys() & removed.keys():
        framework, version = removed[key]
        known = found.get(framework)
        if framework in frameworks and (known is None or (version, key) < (known.version, known.key)):
            detail = f"the newest {framework} that takes `{key}`"
            origin = section.origin(key, detail=detail)._replace(kind="inferred")
            found[framework] = Evidence(version, key, origin)
    return found


def last_with(schema: str, key: str) -> tuple[str, Version] | None:
    """Framework and the last version of it that has `key`; None of a key that the newest has."""
    return _removed(schema).get(key)


@cache
def _removed(schema: str) -> dict[str, tuple[str, Version]]:
    """Key -> framework and the last version that has it, for the keys of `schema` that newer releases refuse."""
    properties = compiled_schema(schema).schema["properties"]
    return {
        key: _before(sub["x-memlint-removed-in"])
        for key, sub in properties.items()
        if "x-memlint-removed-in" in sub and key not in NO_EVIDENCE
    }


def _before(removed: str) -> tuple[str, Version]:
    """`trl 0.20` -> trl, (0, 19)."""
    framework, _, text = removed.partition(" ")
    version = tuple(map(int, text.split(".")))
    while len(version) > 2 and version[-1] == 0:
        version = version[:-1]
    special = _LAST_BEFORE.get((framework, version))
    return framework, special or (*version[:-1], version[-1] - 1)
