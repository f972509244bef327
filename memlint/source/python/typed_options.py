"""Command lines that parameters and the fields of classes declare: fire, typer, tyro, jsonargparse, simple-parsing,
draccus, pyrallis, chz; and absl's flags.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from memlint.source.python.calls import apply, follow
from memlint.source.python.classes import field_types
from memlint.source.python.config_files import merge_deep, value_of_document
from memlint.source.python.members import attribute
from memlint.source.python.reader import Call, Frame, Library, Reader, plain_word
from memlint.source.python.standard_library import options_of
from memlint.source.python.values import (
    Class,
    Instance,
    Items,
    Known,
    PythonFunction,
    Scope,
    Table,
    Undetermined,
    Value,
)

FLAGS = "absl.flags.FLAGS"


def call_without_arguments(reader: Reader, given: Call) -> Value | None:
    """`fire.Fire(main)`, `typer.run(main)`, `tyro.cli(Config)`: calls the function with the options of the command
    line.
    """
    (target,) = given.positional[:1] or (given.named.get("config_class"),)
    if isinstance(target, PythonFunction):
        return follow(reader, target, _call(reader, given, _options_for(reader, target, given)))
    return _object(reader, target, given, "") if isinstance(target, Class) else None


def _fire(reader: Reader, given: Call) -> Value | None:
    """`fire.Fire(Class)` and `fire.Fire({"train": train})`: the command line names what is called (fire 0.7.1 core.py,
    _Fire)."""
    target = given.argument(0, "component")
    (word,) = reader.command.positional[:1] or (None,)
    name = word.value if isinstance(word, Known) else None
    if isinstance(target, Table):
        return call_without_arguments(reader, given._replace(positional=(target.values.get(name, target),)))
    if not isinstance(target, Class) or not isinstance(name, str):
        return call_without_arguments(reader, given)
    initialise = target.methods.get("__init__")
    own = PythonFunction(initialise, target.module, target.scope) if initialise is not None else None
    made = apply(reader, target, _call(reader, given, _options_for(reader, own, given) if own is not None else {}))
    called = attribute(made, name)
    if not isinstance(called, PythonFunction):
        return None
    return follow(reader, called, _call(reader, given, _options_for(reader, called, given)))


def _call(reader: Reader, given: Call, named: Mapping[str, Value]) -> Call:
    return Call("", (), named, given.source, reader.command.is_open)


def _options_for(reader: Reader, function: PythonFunction, call: Call) -> dict[str, Value]:
    """The options that are parameters of a function; all of them if it has `**kwargs` (fire 0.7 core.py)."""
    taken = function.node.args
    others = list(reader.command.options) if taken.kwarg else []
    names = [*(one.arg for one in (*taken.args, *taken.kwonlyargs)), *others]
    given = {name: reader.option(name) or _turned_off(reader, name) for name in names}
    found = {name: value for name, value in given.items() if value}
    defaults = dict(_defaults(taken))
    for one in (*taken.args, *taken.kwonlyargs):
        of = _class_of(reader, function, one)
        if of is None or one.arg in found:
            continue
        if one.arg not in defaults:
            found[one.arg] = _object(reader, of, call, f"{one.arg}.")
        elif _below(reader, one.arg):
            default = reader.evaluate(reader, defaults[one.arg], Frame(function.module, Scope(function.scope)))
            _set_all(reader, default, _said(reader, f"{one.arg}."))
            found[one.arg] = default
    return found


def _defaults(taken: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    for one, value in zip(reversed(taken.args), reversed(taken.defaults)):
        yield one.arg, value
    for one, default in zip(taken.kwonlyargs, taken.kw_defaults):
        if default is not None:
            yield one.arg, default


def _below(reader: Reader, name: str) -> bool:
    """Whether the command line gives options such as `--config.lr`."""
    return any(option.startswith(f"{name}.") for option in reader.command.options)


def _turned_off(reader: Reader, name: str) -> Value | None:
    """`--nouse_lora` (fire 0.7 core.py, _ParseKeywordArgs) and `--no-use-lora` (typer 0.20 main.py)."""
    return Known(False) if {f"no{name}", f"no_{name}"} & reader.command.options.keys() else None


def _class_of(reader: Reader, function: PythonFunction, parameter: ast.arg) -> Class | None:
    """The class with fields that a parameter's annotation names."""
    if not isinstance(parameter.annotation, (ast.Name, ast.Attribute)):
        return None
    found = reader.evaluate(reader, parameter.annotation, Frame(function.module, Scope(function.scope)))
    return found if isinstance(found, Class) and found.is_dataclass else None


def _object(reader: Reader, of: Class, given: Call, prefix: str, file: Value | None = None) -> Value:
    """An object of a class whose fields are options, `prefix` before their names; `file`: values of a file, which the
    options override."""
    said = _said(reader, prefix)
    fields = {name: said.get(name) or (None if prefix else reader.option(name)) for name in field_types(of)}
    values = Table({})
    if file is not None:
        merge_deep(values, file)
    values.values.update({name: value for name, value in fields.items() if value})
    named = {name: value for name, value in values.values.items() if isinstance(name, str)}
    made = apply(reader, of, Call("", (), named, given.source, reader.command.is_open or values.is_open))
    for name, value in said.items():
        _set_nested(reader, made, name.split("."), value)
    return made


def _said(reader: Reader, prefix: str) -> dict[str, Value]:
    """The options whose names begin with `prefix`, without it."""
    options = reader.command.options.items()
    return {name.removeprefix(prefix): plain_word(words) for name, words in options if name.startswith(prefix)}


def _set_all(reader: Reader, made: Value, said: Mapping[str, Value]) -> None:
    for name, value in said.items():
        if isinstance(made, Instance) and name in made.attributes:
            reader.set(made.attributes, made, name, value)
        _set_nested(reader, made, name.split("."), value)


def _set_nested(reader: Reader, owner: Value, names: list[str], value: Value) -> None:
    """`--optimizer.lr 1e-5` sets `lr` of the object or mapping `optimizer`."""
    for name in names[:-1]:
        inner = owner.attributes.get(name) if isinstance(owner, Instance) else None
        inner = owner.values.get(name) if isinstance(owner, Table) else inner
        if inner is None:
            return
        owner = inner
    holder = owner.attributes if isinstance(owner, Instance) else owner.values if isinstance(owner, Table) else None
    if holder is not None and len(names) > 1 and names[-1] in holder:
        reader.set(holder, owner, names[-1], value)


def _with_file(reader: Reader, given: Call) -> Value | None:
    """`draccus.parse(Config)`, `pyrallis.parse(config_class=Config)`: the file that `--config_path` names, and the
    options over it (draccus 0.11.5 and pyrallis 0.3.1 argparsing.py)."""
    of, path = given.argument(0, "config_class"), reader.option("config_path") or given.argument(1, "config_path")
    return _object(reader, of, given, "", _file(reader, path)) if isinstance(of, Class) else None


def _file(reader: Reader, path: Value | None) -> Value | None:
    if path is None or (isinstance(path, Known) and path.value is None):
        return None
    document = reader.find(path.value) if isinstance(path, Known) and isinstance(path.value, str) else None
    return Table({}, is_open=True) if document is None else value_of_document(document)


def _wrapped(reader: Reader, given: Call) -> Value | None:
    """`@draccus.wrap()`, `@pyrallis.wrap()`: the first parameter is made from the command line, by its annotation."""
    function = given.owner
    if not isinstance(function, PythonFunction) or not function.node.args.args:
        return None
    of = _class_of(reader, function, function.node.args.args[0])
    if of is None:
        return None
    path = reader.option("config_path") or given.argument(0, "config_path")
    made = _object(reader, of, given, "", _file(reader, path))
    return PythonFunction(function.node, function.module, function.scope, made)


def _add_class(prefix_at: tuple[int, str], is_flat: bool) -> Library:
    """jsonargparse's `parser.add_class_arguments(Config, "config")` has options `--config.lr`; simple-parsing's
    `parser.add_arguments(Config, dest="config")` has `--lr`."""

    def add(reader: Reader, given: Call) -> Value | None:
        options, of = options_of(given.owner), (given.positional or (None,))[0]
        name = given.argument(*prefix_at)
        is_plain = not {"default", "prefix"} & given.named.keys()
        if options is None or not isinstance(of, Class) or not isinstance(name, Known) or not is_plain:
            return None
        made = _object(reader, of, given, "" if is_flat else f"{name.value}.")
        if is_flat and isinstance(made, Instance):
            _set_by_last_name(reader, made)
        options.values[name.value] = made
        return Known(None)

    return add


def _set_by_last_name(reader: Reader, made: Instance) -> None:
    """simple-parsing 0.1.9 conflicts.py: a nested field's option has its plain name, unless another has that too."""
    for value in list(made.attributes.values()):
        if not isinstance(value, Instance):
            continue
        for name in value.attributes.keys() - made.attributes.keys():
            said = reader.words(name)
            if said is not None:
                reader.set(value.attributes, value, name, plain_word(said))
        _set_by_last_name(reader, value)


def _of_overrides(reader: Reader, given: Call) -> Value | None:
    """`chz.nested_entrypoint(main)`, `chz.entrypoint(Config)`: words such as `model.lr=1` set fields."""
    (target,) = given.positional[:1] or (None,)
    function = target if isinstance(target, PythonFunction) else None
    taken = function.node.args.args if function is not None else []
    of = _class_of(reader, function, taken[0]) if function is not None and taken else target
    if not isinstance(of, Class):
        return None
    said = reader.command.overrides
    named = {name: said[name] for name in field_types(of) if name in said}
    made = apply(reader, of, _call(reader, given, named))
    for name, value in said.items():
        _set_nested(reader, made, name.split("."), value)
    return made if function is None else follow(reader, function, Call("", (made,), {}, given.source))


def _flag(reader: Reader, given: Call) -> Value | None:
    """`flags.DEFINE_integer("batch_size", 8, "...")` of absl 2.3.1 flags/_defines.py."""
    name, default = given.argument(0, "name"), given.argument(1, "default")
    flags = reader.constants.get(FLAGS)
    if not isinstance(name, Known) or not isinstance(flags, Table):
        return None
    word = str(name.value)
    said = reader.option(word) or _turned_off(reader, word)
    value = said or reader.unsaid(word, default or Undetermined(f"the flag `{word}`", given.source))
    flags.values[word] = value
    return Table({"value": value, "default": default or value}, given.source)


def _run_main(reader: Reader, given: Call) -> Value | None:
    """`app.run(main)` of absl: calls `main(argv)`."""
    main = given.argument(0, "main")
    if not isinstance(main, PythonFunction):
        return None
    return follow(reader, main, Call("", (Items([], is_open=True),), {}, given.source))


def flag_values() -> Mapping[str, Value]:
    """The flags of a script, to which each `DEFINE_...` adds one."""
    return {FLAGS: Table({}, is_open=True)}


_KINDS = ("string", "integer", "float", "bool", "boolean", "enum", "list")

LIBRARIES: Mapping[str, Library] = {
    **dict.fromkeys(("fire.Fire", "Fire"), _fire),
    **dict.fromkeys(
        ("typer.run", "tyro.cli", "jsonargparse.CLI", "jsonargparse.auto_cli", "CLI", "simple_parsing.parse"),
        call_without_arguments,
    ),
    **dict.fromkeys(("draccus.parse", "pyrallis.parse"), _with_file),
    **dict.fromkeys(("@draccus.wrap", "@pyrallis.wrap"), _wrapped),
    **dict.fromkeys((".add_class_arguments", ".add_dataclass_arguments"), _add_class((1, "nested_key"), False)),
    ".add_arguments": _add_class((1, "dest"), True),
    **dict.fromkeys(("chz.nested_entrypoint", "chz.entrypoint"), _of_overrides),
    **dict.fromkeys((f"absl.flags.DEFINE_{kind}" for kind in _KINDS), _flag),
    "absl.app.run": _run_main,
}
