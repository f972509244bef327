"""Which plug-ins an invocation loads: the command line's, the user's own, a repository's where that is allowed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from memlint.commands import options
from memlint.errors import UsageError
from memlint.settings import SettingsError, named_plugins, user_plugins

# Roots whose settings are asked for plug-ins: a hook names hundreds of files of one repository.
MOST_ROOTS = 64


def named(given: options.Options) -> tuple[str, ...]:
    """Plug-ins to load, in order; files by their full path. Raises UsageError.

    What a repository's settings name is only told unless --allow-plugins is given: Python there runs with the rights of
    whoever lints, and configs are often somebody else's.
    """
    asked = [full_name(name) for name in getattr(given, "plugin", [])]
    isolated = getattr(given, "isolated", False)
    try:
        own = [] if isolated else list(user_plugins())
        theirs = [] if isolated else list(_of_repositories(given))
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None
    if theirs and not getattr(given, "allow_plugins", False):
        left = [name for name in theirs if name not in (*asked, *own)]
        if left:
            names = ", ".join(os.path.relpath(name) if os.path.isabs(name) else name for name in left)
            sys.stderr.write(
                f"memlint: plug-ins of this repository are not loaded: {names} (--allow-plugins loads them)\n"
            )
        theirs = []
    return tuple(dict.fromkeys((*asked, *own, *theirs)))


def plugged(given: options.Options) -> tuple[str, ...]:
    """Loads what an invocation names, once: `--gpu` may be a plug-in's card. Raises UsageError."""
    if not hasattr(given, "plugged"):
        names = named(given)
        plug_in(names)
        given.plugged = names
    found: tuple[str, ...] = given.plugged
    return found


def plug_in(names: tuple[str, ...]) -> None:
    """Loads plug-ins. Raises UsageError for one that cannot be used."""
    if not names:
        return
    from memlint.plugins import PluginError, load
    from memlint.ruleset.rule import RuleError

    try:
        load(names)
    except RuleError as error:
        raise UsageError(f"a rule cannot be used: {error}") from None
    except PluginError as error:
        raise UsageError(str(error)) from None


def _of_repositories(given: options.Options) -> Iterable[str]:
    for path in [path for path in given.paths or ["."] if path != "-"][:MOST_ROOTS]:
        beside = os.path.join(path, "x.yaml") if os.path.isdir(path) else path
        yield from named_plugins(os.path.abspath(beside), getattr(given, "settings", None))


def full_name(name: str) -> str:
    """What the command line calls a plug-in, from wherever it is read later."""
    return os.path.abspath(name) if name.endswith(".py") else name
