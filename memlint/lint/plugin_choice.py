"""Chooses the plug-ins to load: those of the command line, of the user, and of the repository if that is allowed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.settings import SettingsError, named_plugins, user_plugins

# The most roots whose settings are searched for plug-ins: a hook names hundreds of files of one repository.
MOST_ROOTS = 64


class PluginChoice(NamedTuple):
    """`names`: plug-ins to load, in order; files by absolute path. `refused`: those of a repository, not loaded."""

    names: tuple[str, ...]
    refused: tuple[str, ...] = ()


def choose_plugins(
    from_command_line: Sequence[str], roots: Sequence[str], settings_file: str | None, isolated: bool, allowed: bool
) -> PluginChoice:
    """Chooses the plug-ins. `allowed`: whether to load those that the repository's own settings name.

    A plug-in is Python code that runs with the rights of the user, and a linted repository is often somebody else's.
    Raises UsageError.
    """
    requested = [full_name(name) for name in from_command_line]
    try:
        from_user = [] if isolated else list(user_plugins())
        from_repository = [] if isolated else list(_of_repositories(roots, settings_file))
    except SettingsError as error:
        raise UsageError(f"settings: {error}") from None
    refused = () if allowed else tuple(name for name in from_repository if name not in (*requested, *from_user))
    return PluginChoice(tuple(dict.fromkeys((*requested, *from_user, *(from_repository if allowed else ())))), refused)


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
        probe = os.path.join(path, "x.yaml") if os.path.isdir(path) else path
        yield from named_plugins(os.path.abspath(probe), settings_file)


def full_name(name: str) -> str:
    """The name of a plug-in, valid in any working directory: a file by its absolute path, a module unchanged."""
    return os.path.abspath(name) if name.endswith(".py") else name
