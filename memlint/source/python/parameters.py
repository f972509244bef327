"""Binds the arguments of a call to the parameters of a function of the repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from memlint.source.python.members import is_configured
from memlint.source.python.reader import Call, Frame, Reader, plain_word
from memlint.source.python.values import Items, Known, Made, PythonFunction, Scope, Table, Undetermined, Value

BOUND = "parameters"  # the name of what is observed for each function that is followed: its parameters


def bind(reader: Reader, function: PythonFunction, given: Call, frame: Frame) -> Mapping[str, Value]:
    """Sets the parameters of `function` in `frame`: arguments first, then defaults. Returns them."""
    node = function.node.args
    names = [one.arg for one in (*node.posonlyargs, *node.args)]
    values = dict(zip(names, given.positional))
    if node.vararg:
        values[node.vararg.arg] = Items(list(given.positional[len(names) :]))
    known = {*names, *(one.arg for one in node.kwonlyargs)}
    values.update({name: value for name, value in given.named.items() if name in known})
    if node.kwarg:
        rest = {name: value for name, value in given.named.items() if name not in known}
        values[node.kwarg.arg] = Table(dict(rest), is_open=given.is_open)
    defaults = _defaults(reader, function)
    for name in known - values.keys():
        if name in defaults and not given.is_open:
            values[name] = defaults[name]
        else:
            called = getattr(function.node, "name", "a function")
            values[name] = Undetermined(f"the argument `{name}` of `{called}`", given.source)
    frame.scope.names.update(values)
    reader.observe(Made(BOUND, (), values, given.source))
    return values


def lacks_arguments(function: PythonFunction, given: Call) -> bool:
    """Whether a call gives fewer arguments than the function takes at least: Python raises TypeError."""
    node = function.node.args
    names = [one.arg for one in (*node.posonlyargs, *node.args)]
    needed = names[len(given.positional) : len(names) - len(node.defaults)]
    needed += [one.arg for one, value in zip(node.kwonlyargs, node.kw_defaults) if value is None]
    return not given.is_open and not {*needed} <= given.named.keys()


def _defaults(reader: Reader, function: PythonFunction) -> dict[str, Value]:
    node = function.node.args
    outer = Frame(function.module, Scope(function.scope))
    positional = (*node.posonlyargs, *node.args)
    pairs = list(zip(positional[len(positional) - len(node.defaults) :], node.defaults))
    pairs += [(one, value) for one, value in zip(node.kwonlyargs, node.kw_defaults) if value is not None]
    if _is_configured(function):
        return {one.arg: Undetermined(f"gin's configuration may give `{one.arg}`") for one, _ in pairs}
    found = {one.arg: _default(reader, value, outer) for one, value in pairs}
    return {**found, **dict(_command_options(reader, function, outer))}


def _is_configured(function: PythonFunction) -> bool:
    """Whether the function, or the class that it makes an object of, has gin's decorator."""
    node = function.node
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    made = function.holder if getattr(node, "name", "") == "__init__" else None
    return is_configured(decorators) or (made is not None and made.is_configured)


def _command_options(reader: Reader, function: PythonFunction, outer: Frame) -> Iterator[tuple[str, Value]]:
    """Parameters that a command line sets, by click's decorators or typer's declarations: what it says, else the
    default of `@click.option("--name", default=...)`."""
    if isinstance(function.node, ast.Lambda):
        return
    for one in function.node.decorator_list:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "option":
            yield from _of_click(reader, one, outer)
    arguments = function.node.args
    defaults = dict(zip(reversed([*arguments.posonlyargs, *arguments.args]), reversed(arguments.defaults)))
    defaults.update(
        {one: value for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value is not None}
    )
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        said = _flag_value(reader, _typer_flags(parameter.annotation, defaults.get(parameter)))
        if said is not None:
            yield parameter.arg, said


def _of_click(reader: Reader, option: ast.Call, outer: Frame) -> Iterator[tuple[str, Value]]:
    """click 8.3 core.py, Option._parse_decls: a name without dashes is the parameter, else the longest flag is."""
    names = [part.value for part in option.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    keywords = {keyword.arg: keyword.value for keyword in option.keywords}
    plain = [name for name in names if not name.startswith("-")]
    name = plain[0] if plain else max(names, key=len, default="").split("/")[0].lstrip("-").replace("-", "_")
    said = reader.option(name) or _flag_value(reader, [one for one in names if one.startswith("-")])
    if said is not None:
        yield name, said
    elif "default" in keywords:
        yield name, reader.unsaid(name, _default(reader, keywords["default"], outer))
    elif "is_flag" in keywords:
        yield name, reader.unsaid(name, Known(False))
    elif "required" not in keywords:
        yield name, reader.unsaid(name, Known(None))


def _typer_flags(*places: ast.expr | None) -> list[str]:
    """The flags of `typer.Option(4, "--bs", "-b")`, which is a parameter's default or stands in its annotation."""
    calls = (node for place in places if place is not None for node in ast.walk(place) if isinstance(node, ast.Call))
    options = (one for one in calls if getattr(one.func, "attr", getattr(one.func, "id", "")) == "Option")
    texts = (part.value for one in options for part in one.args if isinstance(part, ast.Constant))
    return [text for text in texts if isinstance(text, str) and text.startswith("-")]


def _flag_value(reader: Reader, flags: Sequence[str]) -> Value | None:
    """What the command line says under one of these flags: `--bf16/--no-bf16` is on or off; None for nothing."""
    for flag in flags:
        on, _, off = flag.partition("/")
        words = reader.words(on.strip())
        if words is not None:
            return plain_word(words)
        if off and reader.words(off.strip()) is not None:
            return Known(False)
    return None


def _default(reader: Reader, node: ast.expr, outer: Frame) -> Value:
    value = reader.evaluate(reader, node, outer)
    if isinstance(value, Made) and value.last in ("Option", "Argument"):  # typer
        value = value.arguments.get("default") or next(
            iter(value.positional), Undetermined("an argument without default")
        )
    if isinstance(value, Known):
        return value._replace(source=value.source._replace(how="default"))
    return value
