"""Handlers for Python's standard library: paths, the environment, parsers of the command line."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from memlint.source.python import modules
from memlint.source.python.calls import follow
from memlint.source.python.classes import instance
from memlint.source.python.methods import is_there
from memlint.source.python.operations import text_tail
from memlint.source.python.reader import Call, CommandLine, Library, Reader, plain_word
from memlint.source.python.values import (
    Class,
    External,
    Instance,
    Items,
    Known,
    Made,
    PythonFunction,
    Table,
    Undetermined,
    Value,
)

_OPTIONS = "options of the command line"  # a key that no attribute has
_COMMANDS = "subcommands"
_ACTED_ON = "attributes that an own action sets"
_TRAINS = re.compile(r"train|sft|finetune|fine-tune|dpo|grpo|fit", re.IGNORECASE)
OPTIONS = "command line"  # the name of the object that is observed when a script parses its command line: the options


def _path_of(function: Callable[[str], str]) -> Library:
    def apply(reader: Reader, given: Call) -> Value:
        (value,) = given.positional[:1] or (Undetermined("nothing"),)
        if isinstance(value, Known) and isinstance(value.value, str):
            return Known(function(value.value), value.source)
        if isinstance(value, Undetermined):
            return value._replace(tail=function(value.tail))
        return Undetermined("a path", given.source)

    return apply


def _join(reader: Reader, given: Call) -> Value:
    parts = [one.value for one in given.positional if isinstance(one, Known) and isinstance(one.value, str)]
    if len(parts) < len(given.positional):
        separated = [part for one in given.positional for part in (Known("/"), one)]
        return Undetermined("a path with unknown parts", given.source, text_tail(separated))
    return Known(posixpath.normpath(posixpath.join("", *parts)), given.source)


def _exists(reader: Reader, given: Call) -> Value:
    (path,) = given.positional[:1] or (Undetermined("nothing"),)
    return is_there(reader, path, given)


def _environment(reader: Reader, given: Call) -> Value:
    """`os.environ.get(name, default)`: the value from the command line, else the default."""
    default = given.argument(1, "default")
    name = given.argument(0, "key")
    said = reader.command.environment.get(str(name.value)) if isinstance(name, Known) else None
    if said is not None:
        return said
    if default is None:
        return Known(None, given.source._replace(how="environment"))
    if isinstance(default, Known):
        return default._replace(source=default.source._replace(how="environment"))
    return default


def _import_module(reader: Reader, given: Call) -> Value:
    """`importlib.import_module("models.bert")`, `import_module(".bert", package="models")`."""
    name, package = given.argument(0, "name"), given.argument(1, "package")
    if not isinstance(name, Known) or not isinstance(name.value, str):
        return Undetermined("a module whose name is not known", given.source)
    if not name.value.startswith("."):
        return modules.imported(reader, name.value, 0, given.source.path, reader.execute)
    if name.value.startswith("..") or not isinstance(package, Known) or not isinstance(package.value, str):
        return Undetermined("a module named from another one", given.source)
    return modules.imported(reader, package.value + name.value, 0, given.source.path, reader.execute)


def _parser(reader: Reader, given: Call) -> Value:
    """`ArgumentParser(parents=[other])`: it has the options of those parsers too."""
    parser = Made(given.name, given.positional, given.named, given.source)
    options = add_options(parser)
    parents = given.named.get("parents")
    for one in parents.values if isinstance(parents, Items) else ():
        inherited = options_of(one)
        options.values.update(inherited.values if inherited is not None else {})
    return reader.made(parser)  # type: ignore[no-any-return]


def options_of(parser: Value | None) -> Table | None:
    """The options of a parser of the command line; None of anything else."""
    found = parser.attributes.get(_OPTIONS) if isinstance(parser, Made) else None
    return found if isinstance(found, Table) else None


def add_options(parser: Made) -> Table:
    """The options of a new parser, to which `add_argument` adds."""
    parser.attributes[_OPTIONS] = options = Table({})
    return options


def _group(reader: Reader, given: Call) -> Value | None:
    return given.owner if options_of(given.owner) else None


def _subparsers(reader: Reader, given: Call) -> Value | None:
    """`parser.add_subparsers(dest="command")`: it has the parser that it belongs to."""
    if options_of(given.owner) is None:
        return None
    made = Made("argparse.subparsers", (), given.named, given.source, given.owner)
    made.attributes[_COMMANDS] = Table({})
    if isinstance(given.owner, Made):
        given.owner.attributes[_COMMANDS] = made
    return made


def _add_parser(reader: Reader, given: Call) -> Value | None:
    commands = given.owner.attributes.get(_COMMANDS) if isinstance(given.owner, Made) else None
    (name,) = given.positional[:1] or (None,)
    if not isinstance(commands, Table) or not isinstance(name, Known):
        return None
    of = given.owner.arguments.get("parser_class") if isinstance(given.owner, Made) else None
    known = reader.library(of.name) if isinstance(of, External) else None
    of_library = (
        known(reader, given._replace(name=of.name, positional=())) if known and isinstance(of, External) else None
    )
    made = of_library if isinstance(of_library, Made) else Made("argparse.ArgumentParser", (), {}, given.source)
    if options_of(made) is None:
        add_options(made)
    commands.values[name.value] = made
    return made


def _command_of(reader: Reader, parser: Made) -> tuple[str, Made] | None:
    """The subcommand that the command line names, else the first one with a name such as "train"; None without one."""
    holder = parser.attributes.get(_COMMANDS)
    commands = holder.attributes.get(_COMMANDS) if isinstance(holder, Made) else None
    if not isinstance(commands, Table):
        return None
    names = [str(name) for name in commands.values]
    said = [str(one.value) for one in reader.command.positional if isinstance(one, Known) and one.value in names]
    chosen = said[:1] or [name for name in names if _TRAINS.search(name)]
    found = commands.values.get(chosen[0]) if chosen else None
    return (chosen[0], found) if isinstance(found, Made) else None


def _add_argument(reader: Reader, given: Call) -> Value | None:
    options = options_of(given.owner)
    if options is None:
        return None
    names = [one.value for one in given.positional if isinstance(one, Known) and isinstance(one.value, str)]
    given_name = given.named.get("dest")
    name = str(given_name.value) if isinstance(given_name, Known) else option_name(names)
    if name:
        said = _given_value(reader, given, names)
        is_positional = bool(names) and not names[0].startswith("-")
        action = given.named.get("action")
        if said is None:
            said = reader.unsaid(name, _option_default(reader, given, name, is_positional))
        elif isinstance(action, Class) and isinstance(given.owner, Made):
            said = Undetermined(f"what `{action.name}` makes of `{name}`", given.source)
            acted_on = given.owner.attributes.setdefault(_ACTED_ON, Table({}))
            if isinstance(acted_on, Table):
                acted_on.values.update(dict.fromkeys(_set_by(action), said))
        options.values[name] = said
    return Known(None)


def _set_by(action: Class) -> Iterator[str]:
    """The attributes that an action of the program's own sets by name: `setattr(namespace, "use_lora", True)`."""
    for method in action.methods.values():
        for node in ast.walk(method):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
                names = (one.value for one in node.args[1:2] if isinstance(one, ast.Constant))
                yield from (name for name in names if isinstance(name, str))


def _given_value(reader: Reader, given: Call, names: list[str]) -> Value | None:
    """The value that the command line gives for `add_argument(*names, ...)`; None if it gives none."""
    words = reader.words(*names)
    if words is None and names and not names[0].startswith("-"):
        words = _next_positional(reader, given)
    if words is None:
        negated = reader.words(*(f"no_{name.lstrip('-')}" for name in names))
        if negated is not None and _of_named(given, "action") is None:
            return Known(False)  # argparse.BooleanOptionalAction
        return reader.option(option_name(names)) if names else None
    action = _of_named(given, "action")
    if not words:
        return Known(action != "store_false")
    converted = [_word(reader, one, given) for one in words]
    takes_many = _of_named(given, "nargs") not in (None, "?") or action in ("append", "extend")
    return Items(converted, given.source) if takes_many else converted[0]


def _of_named(given: Call, key: str) -> object:
    value = given.named.get(key)
    return value.value if isinstance(value, Known) else None


def _next_positional(reader: Reader, given: Call) -> tuple[Value, ...] | None:
    words = reader.command.positional[reader.taken :]
    if not words:
        return None
    many = _of_named(given, "nargs") in ("*", "+", "...")
    reader.taken += len(words) if many else 1
    return words if many else words[:1]


def _word(reader: Reader, word: Value, given: Call) -> Value:
    """One word, converted by the option's `type=`."""
    kind = given.named.get("type")
    if not isinstance(word, Known) or not isinstance(word.value, str):
        return word
    if isinstance(kind, External):
        if kind.name == "bool":
            return word._replace(value=bool(word.value))  # type=bool: any text but "" is true
        return _converted(word, kind) if kind.name in ("int", "float") else word
    if not isinstance(kind, PythonFunction):
        return word
    found = follow(reader, kind, Call("", (word,), {}, given.source))
    if isinstance(found, Known):
        return found._replace(source=word.source)
    plain = plain_word((word,))
    is_switch = isinstance(plain, Known) and isinstance(plain.value, bool)
    return plain if is_switch else Undetermined("what its type makes of it", word.source)


def option_name(names: list[str]) -> str:
    """The attribute name of an option: from its first long name, else from its first name."""
    long = next((name for name in names if name.startswith("--")), names[0] if names else "")
    return long.lstrip("-").replace("-", "_")


def _option_default(reader: Reader, given: Call, name: str, is_positional: bool) -> Value:
    default, action, required = (given.named.get(key) for key in ("default", "action", "required"))
    is_required = isinstance(required, Known) and bool(required.value)
    if is_required:
        return Undetermined(f"the option `{name}`, which is required", given.source)
    if isinstance(default, Known):
        return _converted(default, given.named.get("type"))._replace(source=default.source._replace(how="option"))
    if default is not None:
        return default
    word = action.value if isinstance(action, Known) else None
    if word in ("store_true", "store_false"):
        return Known(word == "store_false", given.source._replace(how="option"))
    optional = given.named.get("nargs")
    if is_positional and not (isinstance(optional, Known) and optional.value in ("?", "*")):
        return Undetermined(f"the argument `{name}`, which is required", given.source)
    return Known(None, given.source._replace(how="option"))


def _converted(value: Known, kind: Value | None) -> Known:
    """A default after conversion by `type=`: argparse converts defaults that are text."""
    if not isinstance(value.value, str) or not isinstance(kind, External) or kind.name not in ("int", "float"):
        return value
    try:
        return value._replace(value=int(value.value) if kind.name == "int" else float(value.value))
    except ValueError:
        return value


def _parse_arguments(reader: Reader, given: Call) -> Value | None:
    options = options_of(given.owner)
    if options is None:
        return None
    acted_on = given.owner.attributes.get(_ACTED_ON) if isinstance(given.owner, Made) else None
    if isinstance(acted_on, Table):
        options = Table({**options.values, **acted_on.values})
    chosen = _command_of(reader, given.owner) if isinstance(given.owner, Made) else None
    if chosen is not None and isinstance(given.owner, Made):
        inner, holder = options_of(chosen[1]), given.owner.attributes[_COMMANDS]
        options = Table({**options.values, **(inner.values if inner is not None else {})})
        name = holder.arguments.get("dest") if isinstance(holder, Made) else None
        if isinstance(name, Known):
            options.values[name.value] = Known(chosen[0])
    names = {name: value for name, value in options.values.items() if isinstance(name, str)}
    reader.observe(Made(OPTIONS, (), names, given.source))
    has_others = isinstance(given.owner, Made) and given.owner.last != "ArgumentParser"  # the fields of dataclasses
    return reader.made(Table(dict(options.values), given.source, has_others))  # type: ignore[no-any-return]


def _parse_known(reader: Reader, given: Call) -> Value | None:
    found = _parse_arguments(reader, given)
    return None if found is None else Items([found, Items([], given.source)])


def _set_defaults(reader: Reader, given: Call) -> Value | None:
    options = options_of(given.owner)
    if options is None:
        return None
    options.values.update(given.named)
    return Known(None)


def _typed(reader: Reader, given: Call) -> Value:
    return Undetermined("what somebody types", given.source._replace(how="typed"))


def _namespace(reader: Reader, given: Call) -> Value:
    return reader.made(Table(dict(given.named), given.source, given.is_open))  # type: ignore[no-any-return]


def _spawned(reader: Reader, given: Call) -> Value | None:
    """`torch.multiprocessing.spawn(fn, args=(...), nprocs=n)` calls `fn(rank, *args)`."""
    return _run(reader, given.argument(0, "fn"), given.argument(1, "args"), (Known(0),), given)


def _launched(reader: Reader, given: Call) -> Value | None:
    """accelerate 1.15 launchers.py: `notebook_launcher(function, args)` calls `function(*args)`."""
    return _run(reader, given.argument(0, "function"), given.argument(1, "args"), (), given)


def _run(
    reader: Reader, function: Value | None, arguments: Value | None, first: tuple[Value, ...], given: Call
) -> Value | None:
    if not isinstance(function, PythonFunction):
        return None
    others = tuple(arguments.values) if isinstance(arguments, Items) else ()
    is_open = arguments is not None and not isinstance(arguments, Items)
    follow(reader, function, Call("", (*first, *others), {}, given.source, is_open))
    return Known(None)


def _from_dict(reader: Reader, given: Call) -> Value | None:
    """`dacite.from_dict(data_class=Config, data=values)`."""
    of, data = given.argument(0, "data_class"), given.argument(1, "data")
    if not isinstance(of, Class) or not isinstance(data, Table):
        return None
    names = {key: value for key, value in data.values.items() if isinstance(key, str)}
    return instance(reader, of, Call("", (), names, given.source, data.is_open))


def _copy(reader: Reader, given: Call) -> Value | None:
    (value,) = given.positional[:1] or (None,)
    if isinstance(value, Table):
        return reader.made(Table(dict(value.values), value.source, value.is_open))  # type: ignore[no-any-return]
    return value


def _replaced(reader: Reader, given: Call) -> Value | None:
    """`dataclasses.replace(config, x=1)`."""
    (value,) = given.positional[:1] or (None,)
    if not isinstance(value, Instance):
        return None
    made = Instance(value.of, given.source)
    made.attributes.update({**value.attributes, **given.named})
    return reader.made(made)  # type: ignore[no-any-return]


def _partial(reader: Reader, given: Call) -> Value | None:
    (value,) = given.positional[:1] or (None,)
    return value


def constants(command: CommandLine) -> Mapping[str, Value]:
    """The values of names of the standard library (`sys.argv`), for a script with this command line."""
    return {"sys.argv": Items([Known("script"), *_words(command)]), "os.sep": Known("/")}


def _words(command: CommandLine) -> Iterator[Value]:
    """The words of a command line: first the positional ones, then each option and its values as separate words."""
    yield from [Known(command.config)] if command.config else command.positional
    for name, words in command.options.items():
        yield Known(f"--{name}")
        yield from words


def _add_import_folder(reader: Reader, given: Call) -> Value:
    """`sys.path.append(folder)`, `sys.path.insert(0, folder)`: modules are imported from there as well."""
    folder = given.positional[-1] if given.positional else None
    if isinstance(folder, Known) and isinstance(folder.value, str):
        reader.import_folders.append(folder.value)
    return Known(None, given.source)


LIBRARIES: Mapping[str, Library] = {
    **dict.fromkeys(("sys.path.append", "sys.path.insert"), _add_import_folder),
    **dict.fromkeys(("importlib.import_module", "import_module"), _import_module),
    "os.path.join": _join,
    "os.path.dirname": _path_of(posixpath.dirname),
    "os.path.basename": _path_of(posixpath.basename),
    **dict.fromkeys(
        ("os.path.abspath", "os.path.realpath", "os.path.expanduser", "Path", "pathlib.Path"), _path_of(str)
    ),
    **dict.fromkeys(("os.path.exists", "os.path.isfile"), _exists),
    "os.path.isdir": lambda reader, given: Undetermined("whether a folder exists", given.source),
    **dict.fromkeys(("os.environ.get", "os.getenv", "os.environ.setdefault"), _environment),
    "typing.cast": lambda reader, given: given.argument(1, "val"),
    "os.getcwd": lambda reader, given: Known("", given.source),
    "input": _typed,
    ".ArgumentParser": _parser,
    **dict.fromkeys((".add_argument_group", ".add_mutually_exclusive_group"), _group),
    ".add_subparsers": _subparsers,
    ".add_parser": _add_parser,
    ".add_argument": _add_argument,
    ".parse_args": _parse_arguments,
    ".parse_known_args": _parse_known,
    ".set_defaults": _set_defaults,
    **dict.fromkeys(("argparse.Namespace", "types.SimpleNamespace", "SimpleNamespace", "Namespace"), _namespace),
    **dict.fromkeys((".spawn", ".start_processes"), _spawned),
    **dict.fromkeys((".notebook_launcher", ".debug_launcher"), _launched),
    "dacite.from_dict": _from_dict,
    **dict.fromkeys(("copy.deepcopy", "deepcopy", "copy.copy"), _copy),
    **dict.fromkeys(("dataclasses.replace",), _replaced),
    **dict.fromkeys(("functools.partial", "partial"), _partial),
}
