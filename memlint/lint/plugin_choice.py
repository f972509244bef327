"""Which plug-ins an invocation loads: the command line's, the user's own, a repository's where that is allowed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.settings import SettingsError, named_plugins, user_plugins

# Roots whose settings are asked for plug-ins: a hook names hundreds of files of one repository.
MOST_ROOTS = 64


class PluginChoice(NamedTuple):
    """Plug-ins to load, in order, files by their full path; and those that a repository names without leave."""

    names: tuple[str, ...]
    refused: tuple[str, ...] = ()


def choose_plugins(
    asked: Sequence[str], roots: Sequence[str], settings_file: str | None, isolated: bool, allowed: bool
) -> PluginChoice:
    """`asked`: by the command line. `allowed`: whether those of the repository's settings are loaded, too.

    Python there runs with the rights of whoever lints, and configs are often somebody else's. Raises UsageError.
    """
    wanted = [full_name(name) for name in asked]
    try:
        own = [] if isolated else list(user_plugins())
        theirs = [] if isolated else list(_of_repositories(roots, settings_file))
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None
    refused = () if allowed else tuple(name for name in theirs if name not in (*wanted, *own))
    return PluginChoice(tuple(dict.fromkeys((*wanted, *own, *(theirs if allowed else ())))), refused)


def load_plugins(names: tuple[str, ...]) -> None:
    """Loads plug-ins. Raises UsageError for one that cannot be used."""
    if not names:
        return
    from memlint.plugins import PluginError, load  # only where somebody names one
    from memlint.ruleset.rule import RuleError

    try:
        load(names)
    except RuleError as error:
        raise UsageError(f"a rule cannot be used: {error}") from None
    except PluginError as error:
        raise UsageError(str(error)) from None


def _of_repositories(roots: Sequence[str], settings_file: str | None) -> Iterable[str]:
    for path in roots[:MOST_ROOTS]:
        beside = os.path.join(path, "x.yaml") if os.path.isdir(path) else path
        yield from named_plugins(os.path.abspath(beside), settings_file)


def full_name(name: str) -> str:
    """What the command line calls a plug-in, from wherever it is read later."""
    return os.path.abspath(name) if name.endswith(".py") else name
