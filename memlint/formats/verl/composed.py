"""The files that Hydra composes under a command's overrides or under a file: the one that `--config-name` names, and
the trainer's own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.base import Context, MissingFile
from memlint.formats.fields import Section, root
from memlint.formats.verl.groups import groups
from memlint.formats.verl.recognise import is_own_default, is_reinforcement
from memlint.source.document import Document

# Where main_ppo and the SFT trainer find their file, from the folder that a command runs in or one above: the package
# itself, or a clone that `pip install -e ./verl` installs.
_BASES = {
    False: ("verl/trainer/config/ppo_trainer.yaml", "verl/verl/trainer/config/ppo_trainer.yaml"),
    True: ("verl/trainer/config/sft_trainer.yaml", "verl/verl/trainer/config/sft_trainer.yaml"),
}
ABOVE = ("", "../", "../../", "../../../")
# What verl and its recipes call their files, which differ from `ppo_trainer.yaml` in the engine: where the repository
# has none of that name, the defaults of verl stand for it.
_OF_VERL = re.compile(r"(?:\w*_)?(?:ppo|dapo|sft)(?:_megatron|_veomni|_torchtitan)?_trainer(?:_engine)?")
_FOLDER = "config"  # of `@hydra.main(config_path="config")` in verl's programs (0.9.1 trainer/main_ppo.py)


class Composed(NamedTuple):
    """`named`: the file of `--config-name`. `base`: the file that it or the command lies over. `missing`: the name of a
    file that the repository does not have, so that its values are not known. `groups`: the files that the `defaults` of
    `base` list for its sections, the one that wins first; each value stands where it has it in the whole."""

    named: Section | None = None
    base: Section | None = None
    missing: str = ""
    groups: tuple[Section, ...] = ()


def composed(document: Document, context: Context, sft: bool) -> Composed:
    found = _files(document, context, sft)
    return found if found.base is None else found._replace(groups=tuple(groups(found.base, context)))


def _files(document: Document, context: Context, sft: bool) -> Composed:
    if document.start is None:
        return Composed(base=_listed(document.value, document.path, context))
    name = _option(document, "config_name", "cn")
    if name is None:
        return Composed(base=_trainers_file(document.path, context, sft))
    named = _named(str(name), document, context)
    if named is None:
        return Composed(missing="" if _OF_VERL.fullmatch(_stem(str(name))) else str(name))
    path = named.document.path
    base = _listed(named.value, path, context)
    if base is None and _lists_trainers_file(named.value, sft):
        base = _trainers_file(document.path, context, sft)
    return Composed(named, base)


def _trainers_file(path: str, context: Context, sft: bool) -> Section | None:
    """The trainer's own file, where the repository has it."""
    return first_file((above + name for above in ABOVE for name in _BASES[sft]), path, context)


def _named(name: str, document: Document, context: Context) -> Section | None:
    """The file `--config-name` in the folder `--config-path`, which is absolute or counts from the program's file
    (hydra 1.3 _internal/utils.py `compute_search_path_dir`); `--config-dir` counts from where the command runs."""
    return first_file(
        (f"{above}{folder}/{_stem(name)}.yaml" for folder in dict.fromkeys(_folders(document)) for above in ABOVE),
        document.path,
        context,
    )


def _folders(document: Document) -> Iterator[str]:
    given = _option(document, "config_path", "cp", "config_dir", "cd")
    folder = given if isinstance(given, str) else _FOLDER
    own = _program_folder(document)
    for beside in (own, f"verl/{own}") if own else ():
        yield posixpath.join(beside, folder) if not folder.startswith(("/", "$")) else beside
    if isinstance(given, str):
        yield from tails(given)


def tails(path: str) -> Iterator[str]:
    """The path, and what is left of it where the first folders are an author's own: `/home/me/repo/a/b`."""
    parts = [part for part in path.split("/") if part not in ("", ".") and not part.startswith("$")]
    return ("/".join(parts[index:]) for index in range(len(parts)))


def file_name(document: Document) -> str:
    """What a command gives as `--config-name`; "" without one."""
    return str(_option(document, "config_name", "cn") or "")


def _option(document: Document, *names: str) -> Any:
    """The value of one of Hydra's options, under its long or its short name."""
    return next((document.value[name] for name in names if name in document.value), None)


def _program_folder(document: Document) -> str:
    """The folder of the program that a command starts, a file or a module."""
    entry = document.start.program.entry if document.start is not None else ""
    if entry.endswith(".py"):
        return posixpath.dirname(entry).lstrip("./")
    return posixpath.dirname(entry.replace(".", "/"))


def _stem(name: str) -> str:
    return name.removesuffix(".yaml").removesuffix(".yml")


def _any_mapping(value: dict[Any, Any]) -> bool:
    return True


def first_file(
    names: Iterable[str], path: str, context: Context, accepts: Callable[[dict[Any, Any]], bool] = _any_mapping
) -> Section | None:
    """The first of the files that the repository has, with a value that is accepted, as one below `path`. In verl's own
    package stand defaults: nothing is said of a command there."""
    found = (context.read(name, path) for name in names)
    files = (one for one in found if not isinstance(one, MissingFile) and isinstance(one.value, dict))
    read = next((one for one in files if accepts(one.value)), None)
    return None if read is None else root(read, "default" if is_own_default(read.path) else "companion")


def _listed(value: Any, path: str, context: Context) -> Section | None:
    """The file of the same folder that a file's `defaults` list (Hydra's) puts its own values over."""
    return first_file((f"./{name}.yaml" for name in _defaults(value)), path, context, is_reinforcement)


def _lists_trainers_file(value: Any, sft: bool) -> bool:
    """Whether the file's `defaults` name the trainer's file, which a `searchpath` finds in another folder."""
    return any(name == _stem(posixpath.basename(_BASES[sft][0])) for name in _defaults(value))


def _defaults(value: Any) -> Iterator[str]:
    listed = value.get("defaults")
    return (one for one in listed if isinstance(one, str) and one != "_self_") if isinstance(listed, list) else iter(())
