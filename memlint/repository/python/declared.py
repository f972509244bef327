"""Makes the run of a config whose keys the setting `keys` declares. No script is read for it."""

from __future__ import annotations

from functools import partial

from memlint.formats.trainer.python.python_run import LOOP, PythonRun
from memlint.repository.declared_keys import DeclaredArgument, DeclaredKeys, path_of
from memlint.repository.python.documents import PythonRepository, document_of
from memlint.source import load
from memlint.source.document import Document, StartedProgram
from memlint.source.python.config_files import value_of_document, value_of_plain
from memlint.source.python.values import Items, Known, Table, Undetermined, Value, ValueSource


def declared_document(file: Document, path: str, keys: DeclaredKeys, repository: PythonRepository) -> Document:
    """The run that `file` (at `path` below the root) describes, as `keys` explains it."""
    whole = ValueSource(path, None, "config")
    values = value_of_document(file._replace(path=path))
    found = {name: _value(values, file, one, whole) for name, one in keys.arguments.items()}
    given = {name: value for name, value in found.items() if value is not None}
    run = PythonRun(
        trainer=trainer_of(keys.arguments_class),
        arguments=keys.arguments_class,
        keys=given,
        source=whole,
        program=StartedProgram(loads_model=True, unmodelled=keys.unmodelled),
    )
    made = document_of(run, path, file.text, repository)
    assert made.start is not None  # `document_of` always sets it
    names = {name: one.key for name, one in keys.arguments.items() if one.key}
    start = made.start._replace(
        program=made.start.program._replace(entry=keys.origin.path),
        values=made.start.values._replace(
            written_at={**{name: keys.arguments[name].written_at for name in given}, **made.start.values.written_at},
            reread=partial(_reread, file, path, keys, repository),
        ),
        accepted=made.start.accepted._replace(names=names),
    )
    return made._replace(start=start, encoding=file.encoding, bom=file.bom, newline=file.newline)


def _reread(
    file: Document, path: str, keys: DeclaredKeys, repository: PythonRepository, text: str
) -> tuple[Document, ...]:
    found = load(text.encode("utf-8", "surrogatepass"), file.path)
    return tuple(declared_document(one, path, keys, repository) for one in found)


def _value(values: Value, file: Document, one: DeclaredArgument, whole: ValueSource) -> Value | None:
    if one.unknown:
        return Undetermined(one.unknown, whole)
    found = _at(values, path_of(one.key, file.value)) if one.key else None
    if found is not None:
        return found
    return None if one.value is None else value_of_plain(one.value, whole)


def _at(value: Value, path: tuple[str | int, ...]) -> Value | None:
    for part in path:
        if isinstance(value, Table):
            found = value.values.get(part)
        elif isinstance(value, Items) and isinstance(part, int) and part < len(value.values):
            found = value.values[part]
        else:
            found = None
        if found is None:
            return None
        value = found
    return None if isinstance(value, Known) and value.value is None else value


def trainer_of(arguments_class: str) -> str:
    """The trainer that takes arguments of a class: SFTTrainer of SFTConfig; "" of a loop of the repository's own."""
    if arguments_class == LOOP:
        return ""
    return f"{arguments_class.removesuffix('TrainingArguments').removesuffix('Config')}Trainer"
