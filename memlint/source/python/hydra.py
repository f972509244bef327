"""Hydra's composition: a primary configuration, its defaults list, config groups, experiments, overrides.

Read in hydra 1.3: _internal/defaults_list.py (order and overrides), core/default_element.py (packages), main.py,
and the documentation of the defaults list, of packages and of experiments.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from memlint._record import NamedTuple
from memlint.source.document import Document
from memlint.source.load import in_dialect
from memlint.source.python.config_files import interpolate, merge_deep, override, plain_values, structured
from memlint.source.python.reader import Call, Library, Reader
from memlint.source.python.values import Items, Known, PythonFunction, Table, Value

MAX_DEPTH = 8  # files that name each other
_PACKAGE = re.compile(r"^#\s*@package\s+([\w.]+)", re.MULTILINE)
_OWN = "_self_"
_ON_DISK = "file://"


class DefaultsEntry(NamedTuple):
    """One entry of a defaults list. `group`: from the folder of configurations, "" of a plain file; `written`: as the
    list has it; `package`: where its values go, "" for where the group says."""

    group: str
    name: str
    written: str = ""
    package: str = ""
    is_override: bool = False
    is_optional: bool = False

    @property
    def key(self) -> str:
        """Its name in an override: `model`, or `model@second` if the list gives it a package."""
        return f"{self.group}@{self.package}" if self.package else self.group


def hydra_main(reader: Reader, given: Call) -> Value | None:
    """`@hydra.main(config_path, config_name)`: the function with the composed configuration as its first argument."""
    folder, name = given.argument(0, "config_path"), given.argument(1, "config_name")
    if not isinstance(given.owner, PythonFunction) or not (name is None or isinstance(name, Known)):
        return None
    base = folder.value if isinstance(folder, Known) and isinstance(folder.value, str) else ""
    word = str(name.value or "").removesuffix(".yaml") if name is not None else ""
    if reader.config:
        base, word = posixpath.split(reader.config.removesuffix(".yaml").removesuffix(".yml"))
    base, word = _own_option(reader, base, "config_path", "cp"), _own_option(reader, word, "config_name", "cn")
    if not word:
        return None  # whoever starts the script names its configuration
    config = composed(reader, base, word.removesuffix(".yaml")) or Table({}, given.source, is_open=True)
    interpolate(config, config)
    return PythonFunction(given.owner.node, given.owner.module, given.owner.scope, config)


def _own_option(reader: Reader, otherwise: str, *names: str) -> str:
    """The value that the command line gives one of Hydra's own options (`--config-name x`); else `otherwise`."""
    (word,) = (reader.words(*names) or (None,))[:1]
    return str(word.value) if isinstance(word, Known) else otherwise


def composed(reader: Reader, folder: str, name: str) -> Table | None:
    """The configuration `name` of `folder`, merged with all files of its defaults list and the overrides of the command
    line: choices of groups first, values last. None if the file does not exist."""
    files = _Files(reader, folder, name)
    choices, added, values = files.overrides(reader.command.overrides)
    files.choose((*files.parts(name), *added), choices)
    found = files.merged(DefaultsEntry("", name), choices, added)
    if found is not None:
        for path, value in values.items():
            override(found, path, value)
    return found


class _Files:
    """The configuration files of one folder, and of those that its primary configuration adds to the search path."""

    def __init__(self, reader: Reader, folder: str, name: str) -> None:
        self._reader = reader
        self._folders = [folder]
        self._read: dict[str, tuple[Table, str] | None] = {}
        stored = reader.constants.get(STORED)
        self._stored = stored.values if isinstance(stored, Table) else {}
        primary = self.file(name)
        self._folders += _searched(primary[0]) if primary is not None else ()

    def _document(self, path: str) -> Document | None:
        """The file at `path` of the first folder that has it."""
        found = (self._reader.find(posixpath.join(folder, f"{path}.yaml")) for folder in self._folders)
        return next((document for document in found if document is not None), None)

    def file(self, path: str) -> tuple[Table, str] | None:
        """The values of a file, else of what the script stores, and the package that it names; None without it."""
        if self._read.get(path) is None:
            document = self._document(path)
            self._read[path] = _of_document(document) if document is not None else self._of_store(path)
        return self._read[path]

    def _of_store(self, path: str) -> tuple[Table, str] | None:
        stored = self._stored.get(path)
        values, package = stored.values if isinstance(stored, Items) else (None, None)
        header = package.value if isinstance(package, Known) else None
        return (values, str(header or "")) if isinstance(values, Table) else None

    def overrides(self, given: Mapping[str, Value]) -> tuple[dict[str, str], list[DefaultsEntry], dict[str, Value]]:
        """`model=big` chooses a file of a group, `+experiment=a` adds one, `lr=1` is a value."""
        choices: dict[str, str] = {}
        added: list[DefaultsEntry] = []
        values: dict[str, Value] = {}
        for name, value in given.items():
            group, _, package = name.partition("@")
            word = value.value if isinstance(value, Known) else None
            if isinstance(word, str) and self.file(f"{group}/{word}") is not None:
                choices[name] = word
                added.append(DefaultsEntry(group, word, group, package))
            else:
                values[name] = value
        return choices, added, values

    def parts(self, path: str) -> Iterator[DefaultsEntry]:
        """The defaults list of the file at `path`; a group is relative to the file's own, unless it begins with `/`."""
        found = self.file(path)
        entries = found[0].values.get("defaults") if found is not None else None
        for entry in entries.values if isinstance(entries, Items) else ():
            yield from _parts(entry, posixpath.dirname(path))

    def choose(self, entries: Sequence[DefaultsEntry], choices: dict[str, str], depth: int = 0) -> None:
        """Adds the `override` entries of a defaults list to `choices`, then those of the lists below. An earlier choice
        is kept; the files of a list are visited from the last one (hydra 1.3.8 _internal/defaults_list.py, lines 115
        and 533)."""
        for one in entries:
            if one.is_override:
                choices.setdefault(one.key, one.name)
        for one in reversed(entries):
            if one.name != _OWN and not one.is_override and depth < MAX_DEPTH:
                self.choose(tuple(self.parts(_path(_chosen(one, choices)))), choices, depth + 1)

    def merged(
        self,
        part: DefaultsEntry,
        choices: Mapping[str, str],
        added: list[DefaultsEntry],
        package: str = "",
        depth: int = 0,
    ) -> Table | None:
        """The values of a part with those of its defaults list, placed below `package`."""
        found = self.file(_path(part))
        if found is None or depth > MAX_DEPTH:
            return None
        own, header = found
        package = _package(part, package, header)
        values = Table({key: value for key, value in own.values.items() if key != "defaults"}, own.source)
        whole = Table({}, own.source)
        inner = list(self.parts(_path(part)))
        if all(one.name != _OWN for one in inner):
            inner.append(DefaultsEntry("", _OWN))
        known = {one.key for one in inner}
        for one in (*inner, *(one for one in added if one.key not in known)):
            if one.name == _OWN:
                merge_deep(whole, _below(package, values))
            elif not one.is_override:
                part = _chosen(one, choices)
                below = self.merged(part, choices, [], package, depth + 1)
                merge_deep(whole, below if below is not None else _absent(part, package))
        return whole


def _of_document(document: Document) -> tuple[Table, str] | None:
    values, header = plain_values(in_dialect(document, "omegaconf")), _PACKAGE.search(document.text)
    return (values, header[1] if header else "") if isinstance(values, Table) else None


def _searched(primary: Table) -> Iterator[str]:
    """The folders of `hydra: {searchpath: [file://conf]}`, which only a primary configuration may name."""
    hydra = primary.values.get("hydra")
    folders = hydra.values.get("searchpath") if isinstance(hydra, Table) else None
    for folder in folders.values if isinstance(folders, Items) else ():
        if isinstance(folder, Known) and str(folder.value).startswith(_ON_DISK):
            yield posixpath.normpath(str(folder.value).removeprefix(_ON_DISK))


def _absent(part: DefaultsEntry, above: str) -> Table:
    """The values of a file that does not exist: none if it is optional, else unknown ones."""
    return Table({}) if part.is_optional else _below(_package(part, above, ""), Table({}, is_open=True))


def _chosen(part: DefaultsEntry, choices: Mapping[str, str]) -> DefaultsEntry:
    """A part with the file of its group that is chosen."""
    return part._replace(name=choices.get(part.key, part.name)) if part.written else part


def _path(part: DefaultsEntry) -> str:
    return posixpath.normpath(posixpath.join(part.group, part.name))


def _package(part: DefaultsEntry, above: str, header: str) -> str:
    """The package of a part's values: from the defaults list, else from the file's header, else the group below the
    parent's package."""
    stated = part.package or header
    if stated == "_global_":
        return ""
    if stated.startswith("_global_."):
        return stated.removeprefix("_global_.")
    if header and not part.package:
        return header
    own = part.package or part.written.replace("/", ".")
    return f"{above}.{own}" if above and own else own or above


def _below(package: str, values: Table) -> Table:
    for name in reversed(package.split(".") if package else []):
        values = Table({name: values}, values.source)
    return values


def _parts(entry: Value, own: str) -> Iterator[DefaultsEntry]:
    """One entry of a defaults list: `name`, `group: name`, `override /group: name`, `group@package: name`."""
    if isinstance(entry, Known) and entry.value:
        name = str(entry.value).removesuffix(".yaml")
        yield (
            DefaultsEntry("", _OWN)
            if name == _OWN
            else DefaultsEntry(own if not name.startswith("/") else "", name.lstrip("/"))
        )
    for key, value in entry.values.items() if isinstance(entry, Table) else ():
        *words, last = str(key).split()
        group, _, package = last.partition("@")
        path = group[1:] if group.startswith("/") else posixpath.join(own, group)
        names = value.values if isinstance(value, Items) else [value]
        for one in names:
            if isinstance(one, Known) and isinstance(one.value, str):
                yield DefaultsEntry(
                    path,
                    one.value.removesuffix(".yaml"),
                    group.lstrip("/"),
                    package,
                    "override" in words,
                    "optional" in words,
                )


STORED = "hydra's store of configurations"


def stored_values() -> Mapping[str, Value]:
    """The configurations that a script stores: (values, package) by path, to which each `store(...)` adds one."""
    return {STORED: Table({})}


def _store(reader: Reader, given: Call) -> Value | None:
    """`ConfigStore.instance().store(name="config", node=Config, group="model")` (hydra 1.3 core/config_store.py)."""
    name, group, package = given.argument(0, "name"), given.argument(2, "group"), given.argument(3, "package")
    node, stored = given.argument(1, "node"), reader.constants.get(STORED)
    if not isinstance(name, Known) or node is None or not isinstance(stored, Table):
        return None
    folder = str(group.value) if isinstance(group, Known) and group.value else ""
    path = posixpath.join(folder, str(name.value).removesuffix(".yaml"))
    values = structured(reader, given._replace(positional=(node,)))
    stored.values[path] = Items([values, package or Known(None)])
    return Known(None)


LIBRARIES: Mapping[str, Library] = {
    "@hydra.main": hydra_main,
    "hydra.core.config_store.ConfigStore.instance().store": _store,
}
