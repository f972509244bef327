"""Files that look like a framework's and that a program of the repository reads by itself.

A program may take a framework's names for its own settings, or for those of a framework that it replaces. It may also
fill in a file for the framework: where it names the framework, a key that the framework does not have tells the two
apart.
"""

from __future__ import annotations

from collections.abc import Callable

from memlint.formats.base import ConfigReader, Context, Issue
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema
from memlint.rule_groups import FOR_ANY_READER, OF_TAGS
from memlint.source.document import Document

_BASE_KEY = "_base_"  # names the files that this one lies over

_FRAMEWORK_LAUNCHERS = frozenset(("llamafactory-cli", "axolotl"))  # launchers that read the file themselves


def rule_applies(rule: str) -> bool:
    """Whether `rule` holds of a file that a script reads by itself."""
    return rule.startswith(FOR_ANY_READER) and not rule.startswith(OF_TAGS)


def own_reader_note(
    document: Document, context: Context, framework: str, schema: str, has_copy: Callable[[Context], bool]
) -> Issue | None:
    """The note on a file that a program reads and no command hands to `framework`; None for any other.

    `schema`: of the framework's keys. A file for a program that names the framework, or in a repository that `has_copy`
    of it, must have keys that are not in it.
    """
    if document.start is not None or not isinstance(document.value, dict):
        return None
    is_foreign = _is_foreign(document, schema)
    if is_foreign and _BASE_KEY in document.value:
        why = f"`{_BASE_KEY}` is for a loader of mmengine's kind, so another program reads this file"
        return Issue("own-reader", f"{why}: its keys are not judged", document.path, severity="info")
    if not is_foreign and has_copy(context):
        return None
    found = context.repository.config_reader(
        document.path, frozenset(key for key in document.value if isinstance(key, str))
    )
    if found.kind != "script" or not found.path or (framework in found.names and not is_foreign):
        return None
    if _FRAMEWORK_LAUNCHERS & {launch.launcher for launch in context.repository.launch_commands(document.path)}:
        return None
    message = f"{who_reads(found)}: its keys are not judged"
    return Issue("own-reader", message, document.path, severity="info")


def who_reads(reader: ConfigReader) -> str:
    """The words that name a script which reads a file by itself, or one of several that may."""
    if reader.is_one_of:
        return f"a script of the repository ({reader.path} may be it) reads this file by itself"
    return f"{reader.path} reads this file by itself"


def _is_foreign(document: Document, schema: str) -> bool:
    """Whether the file has a key that `schema` has not, and that is no slip of one that it has."""
    known = compiled_schema(schema).schema["properties"]
    unknown = (key for key in document.value if isinstance(key, str) and key not in known)
    return any(not nearest(key, known) for key in unknown)
