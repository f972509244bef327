"""Binds the arguments of a call to the parameters of a function of the repository."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.source.python.reader import Call, Frame, Reader
from memlint.source.python.values import Items, Known, Made, PythonFunction, Scope, Table, Undetermined, Value

BOUND = "parameters"  # the name of what is observed for each function that is followed: its parameters


def bind(reader: Reader, function: PythonFunction, given: Call, frame: Frame) -> None:
    """Sets the parameters of `function` in `frame`: arguments first, then defaults."""
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


def _defaults(reader: Reader, function: PythonFunction) -> dict[str, Value]:
    node = function.node.args
    outer = Frame(function.module, Scope(function.scope))
    positional = (*node.posonlyargs, *node.args)
    pairs = list(zip(positional[len(positional) - len(node.defaults) :], node.defaults))
    pairs += [(one, value) for one, value in zip(node.kwonlyargs, node.kw_defaults) if value is not None]
    found = {one.arg: _default(reader, value, outer) for one, value in pairs}
    for name, value in _command_options(reader, function, outer):
        found.setdefault(name, value)
    return found


def _command_options(reader: Reader, function: PythonFunction, outer: Frame) -> Iterator[tuple[str, Value]]:
    """Defaults of `@click.option("--name", default=...)` above a function."""
    decorators = [] if isinstance(function.node, ast.Lambda) else function.node.decorator_list
    for one in decorators:
        if not isinstance(one, ast.Call) or not isinstance(one.func, ast.Attribute) or one.func.attr != "option":
            continue
        names = [part.value for part in one.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        keywords = {keyword.arg: keyword.value for keyword in one.keywords}
        plain = [name for name in names if not name.startswith("-")]
        name = plain[0] if plain else max(names, key=len, default="").split("/")[0].lstrip("-").replace("-", "_")
        if reader.option(name) is not None:
            yield name, reader.option(name) or Known(None)
        elif "default" in keywords:
            yield name, _default(reader, keywords["default"], outer)
        elif "is_flag" in keywords:
            yield name, Known(False)
        elif "required" not in keywords:
            yield name, Known(None)


def _default(reader: Reader, node: ast.expr, outer: Frame) -> Value:
    value = reader.evaluate(reader, node, outer)
    if isinstance(value, Made) and value.last in ("Option", "Argument"):  # typer
        value = value.arguments.get("default") or next(
            iter(value.positional), Undetermined("an argument without default")
        )
    if isinstance(value, Known):
        return value._replace(source=value.source._replace(how="default"))
    return value
