"""What formats share that read a file of their own names as the Trainer's arguments."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from memlint.formats.base import Context
from memlint.formats.fields import Fields
from memlint.formats.versions import Version
from memlint.run import Origin
from memlint.source.document import Path
from memlint.source.layout import Entry, find


def with_brought_releases(context: Context, brought: Mapping[str, Version], detail: str) -> Context:
    """The context with the releases that a framework brings, where nobody states another. `detail`: of the origin."""
    missing = {name: release for name, release in brought.items() if name not in context.versions}
    origin = Origin("inferred", detail=detail)
    return context._replace(
        versions={**context.versions, **missing},
        version_origins={**context.version_origins, **dict.fromkeys(missing, origin)},
    )


# From which release of a framework on its packaging takes what as the newest, the newest release first.
Taken = tuple[tuple[Version, Mapping[str, Version]], ...]


def with_taken_releases(context: Context, framework: str, table: Taken, shown: Version = ()) -> Context:
    """The context with the newest releases that a framework's packaging takes, where nobody states others. `shown`: its
    release as a file's keys give it away, where nobody states that either; else it is the newest of all."""
    release = context.versions.get(framework) or shown or table[0][0]
    takes = next((found for since, found in table if release >= since), {})
    return with_brought_releases(context, takes, f"the newest that {framework} {'.'.join(map(str, release))} takes")


def entries_of_arguments(
    root: Entry, origins: Iterable[tuple[str, Path]], arguments: Container[str]
) -> dict[str, Entry]:
    """Where the value of each argument stands. `origins`: (argument, the path of the file's key that it comes from)."""
    found = ((name, find(root, path)) for name, path in origins if name in arguments)
    return {name: entry for name, entry in found if entry is not None}


def name_own_keys(fields: Fields, file: str, own_path: Callable[[Path], Path]) -> None:
    """Let the origins of values in the file name its own keys, in place of the Trainer's arguments."""
    for field, origin in fields.origins.items():
        if origin.path == file and origin.pointer:
            fields.origins[field] = origin._replace(pointer=own_path(origin.pointer))
