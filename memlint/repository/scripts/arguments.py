"""The values that a command gives its program: its flags, the config that it names, what the program sets itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from memlint.formats.trainer.python.libraries import MAY_BE_PASSED
from memlint.repository.scripts.commands import options
from memlint.repository.scripts.config_files import CONFIG_OPTIONS, config_word, of_file, option_file
from memlint.repository.scripts.document import Values, flags
from memlint.repository.scripts.environment import environment
from memlint.repository.scripts.followed import corrected
from memlint.repository.scripts.launch import ScriptLaunch
from memlint.repository.scripts.placed import Placed
from memlint.repository.scripts.translate import completed, parts_set, worked_out
from memlint.source import in_dialect
from memlint.source.document import Document
from memlint.source.python.values import source_of

_WITH_FILES = ("trainer", "llamafactory", "axolotl", "swift")  # formats whose values a command may take from a file
_DIALECTS = {"llamafactory": "omegaconf"}  # of their files, where it is not PyYAML's: `DIALECT` in its format.py
_TELLING = frozenset({*MAY_BE_PASSED, "model_name_or_path", "learning_rate", "num_train_epochs", "output_dir"})


def arguments(launch: ScriptLaunch) -> tuple[Values, Mapping[str, Document]]:
    """(the values of the program's arguments; key -> the config of the command, for each value that it gives)."""
    given: Iterable[Placed] = completed(
        launch.command,
        launch.definitions,
        launch.format_name,
        flags(launch.command, launch.definitions, launch.format_name),
    )
    files: Mapping[str, Document] = {}
    if launch.run is None:
        given, files = _with_config(launch, list(given))
    else:
        followed = tuple(corrected(list(given), launch.definitions, launch.run))
        given = (*followed, *parts_set(launch.definitions, followed))
    values = Values(launch.files.script, launch.invocation.at)
    for one in (*given, *(environment(launch.invocation.variables) if launch.format_name == "swift" else ())):
        values.put(one)
    return values, files


def config(launch: ScriptLaunch) -> Document | None:
    """The file with the run's values that the command names; None if it names no readable one."""
    word = config_word(launch.command, launch.format_name)
    if word is None or not word.known:
        return None
    file = launch.files.document(word.text)
    if file is None or not isinstance(file.value, dict):
        return None
    is_other = launch.format_name == "trainer" and len(_TELLING & set(file.value)) < 2
    return None if is_other else in_dialect(file, _DIALECTS.get(launch.format_name, file.dialect))


def _kept_config(launch: ScriptLaunch) -> Document | None:
    """`config`, if it can be edited: None for a file that the script writes itself."""
    word = config_word(launch.command, launch.format_name)
    return None if word is None or launch.files.is_written(word.text) else config(launch)


def lone_config(launch: ScriptLaunch) -> Document | None:
    """The config of a command that gives its program nothing else: `sft.py --config a.yaml` without any other word.
    None without one, or if the script writes the file itself."""
    word, file = config_word(launch.command, launch.format_name), _kept_config(launch)
    named, others = options(launch.command.arguments)
    is_alone = all(one.name in CONFIG_OPTIONS for one in named) and all(one is word for one in others)
    return file if is_alone else None


def takes_all_from_config(launch: ScriptLaunch) -> bool:
    """Whether the program takes its arguments from one config, as far as its code was followed."""
    if launch.run is None:
        return launch.format_name in _WITH_FILES
    return len({one.path for one in map(source_of, launch.run.run.keys.values()) if one.how == "config"}) == 1


def _with_config(launch: ScriptLaunch, given: list[Placed]) -> tuple[list[Placed], Mapping[str, Document]]:
    """The values in the order in which they count: what the program sets itself, the config of the command, and
    the command's own; and the files of those from a config, by key."""
    said = [one for one in given if one.key is not None]
    taken = list(_of_config(launch, given))
    own = [one for one in given if one.key is None]
    found = [*own, *said, *taken] if _file_counts(launch) else [*own, *taken, *said]
    found += worked_out(launch.definitions, found) if launch.format_name == "trainer" else ()
    file = _kept_config(launch)
    return found, {} if file is None else {str(one.path[0]): file for one in taken}


def _file_counts(launch: ScriptLaunch) -> bool:
    """Whether the file's values come after the command's own: `option_file`."""
    named, _ = options(launch.command.arguments)
    word = config_word(launch.command, launch.format_name)
    return launch.format_name == "swift" and word is not None and word is option_file(named)


def _of_config(launch: ScriptLaunch, given: list[Placed]) -> Iterator[Placed]:
    word = config_word(launch.command, launch.format_name) if launch.format_name in _WITH_FILES else None
    if word is not None:
        said = {str(one.path[0]) for one in given if one.key is not None}
        yield from of_file(word, config(launch), said, launch.format_name)
