"""The files that a file's `defaults` list for its sections (Hydra's config groups): `- actor@actor_rollout_ref.actor:
dp_actor` puts `actor/dp_actor.yaml` at `actor_rollout_ref.actor` (hydra 1.3 core/default_element.py: GroupDefault). A
copy of verl since 0.4.1 has its defaults there."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context, MissingFile
from memlint.formats.fields import Section
from memlint.source.document import Document

_MOST_STEPS = 4  # of lists that lead to lists
_SELF = "_self_"


class _Entry(NamedTuple):
    """A file `group`/`name` whose values stand at `package`, a path in the whole."""

    group: str
    name: str
    package: tuple[str, ...]


def groups(base: Section, context: Context) -> Iterator[Section]:
    """The files, the one that wins first: of a list the last. What they say counts as a default: nothing is said of a
    run there, as a value stands at another place in such a file than in the whole."""
    yield from _below(base.document, _Entry("", "", ()), base, context, _MOST_STEPS)


def _below(listing: Document, at: _Entry, base: Section, context: Context, steps: int) -> Iterator[Section]:
    for one in reversed(tuple(_entries(listing.value, at))) if steps else ():
        found = context.read(f"./{posixpath.join(one.group, one.name)}.yaml", base.document.path)
        if isinstance(found, MissingFile) or not isinstance(found.value, dict) or found.path == base.document.path:
            continue
        value: Any = found.value
        for key in reversed(one.package):
            value = {key: value}
        yield Section(found, value, (), "default")
        yield from _below(found, one, base, context, steps - 1)


def _entries(value: Any, at: _Entry) -> Iterator[_Entry]:
    listed = value.get("defaults") if isinstance(value, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, str) and one != _SELF and at.group:
            yield _entry(at.group, "", one, at)
        elif isinstance(one, dict) and len(one) == 1:
            ((key, name),) = one.items()
            if isinstance(key, str) and isinstance(name, str) and "$" not in name:
                words, _, package = key.partition("@")
                group = words.split()[-1] if words.split() else ""
                yield _entry(posixpath.normpath(posixpath.join("/", at.group, group))[1:], package or group, name, at)


def _entry(group: str, package: str, name: str, at: _Entry) -> _Entry:
    """A package counts from that of the listing file, but `_global_`."""
    steps = tuple(part for part in package.replace("/", ".").split(".") if part)
    within = steps[1:] if steps[:1] == ("_global_",) else (*at.package, *steps)
    return _Entry(group, name.removesuffix(".yaml"), within)
