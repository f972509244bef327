"""Follows a Python script from its first line, with a given command line."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from memlint.source.python import config_files, hydra, modules, standard_library, typed_options
from memlint.source.python.expressions import evaluate
from memlint.source.python.limits import StopReading
from memlint.source.python.reader import BARE, Call, CommandLine, Frame, Library, Reader, ScriptFiles, Syntax
from memlint.source.python.statements import execute
from memlint.source.python.text import SourceText
from memlint.source.python.values import Made, PythonFunction, Scope, Value, ValueSource

SYNTAX = Syntax(evaluate, execute)


def follow_script(
    script: SourceText,
    files: ScriptFiles,
    observe: Callable[[Made], None],
    libraries: Mapping[str, Library],
    constants: Mapping[str, Value],
    command: CommandLine = BARE,
) -> None:
    """Follows `script` and calls `observe` with each object that a library makes. Never raises on any text.

    `command`: the script's command line.
    """
    own = {**standard_library.LIBRARIES, **typed_options.LIBRARIES, **config_files.LIBRARIES, **hydra.LIBRARIES}
    values = {
        **standard_library.constants(command),
        **typed_options.flag_values(),
        **hydra.stored_values(),
        **constants,
    }
    reader = Reader(script.path, files, {**own, **libraries}, values, observe, SYNTAX, command)
    try:
        scope = modules.names_of(reader, script, execute, is_script=True)
        for function in (*_commands(scope), *_entry_point(script, scope, command)):
            if id(function.node) not in reader.followed:
                typed_options.call_without_arguments(reader, Call("", (function,), {}, ValueSource(script.path)))
        for function, decorator in _of_modal(scope):
            if id(function.node) not in reader.followed:
                evaluate(reader, decorator, Frame(script, scope))
                typed_options.call_without_arguments(reader, Call("", (function,), {}, ValueSource(script.path)))
    except (StopReading, RecursionError):
        return


_ENTRY_POINTS = ("main", "cli", "run", "train")


def _entry_point(script: SourceText, scope: Scope, command: CommandLine) -> Iterator[PythonFunction]:
    """The function that a command of an installed package calls, `train = "package.train:main"`: of a module that does
    nothing where it is started as a script."""
    if not command.is_given or "__name__" in script.text:
        return
    found = (scope.names.get(name) for name in _ENTRY_POINTS)
    yield from (one for one in found if isinstance(one, PythonFunction) and not _needs_arguments(one))


def _needs_arguments(function: PythonFunction) -> bool:
    taken = function.node.args
    return len(taken.posonlyargs) + len(taken.args) > len(taken.defaults)


def _commands(scope: Scope) -> Iterator[PythonFunction]:
    """The functions decorated with `@app.command()`, `@click.command()` or fastcore's `@call_parse`, which an installed
    package starts by name."""
    for function, decorator in _decorated(scope):
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name == "call_parse" or (isinstance(target, ast.Attribute) and name == "command"):
            yield function


_MODAL_APPS = ("modal.App", "modal.Stub")  # `Stub` until modal 0.62
_MODAL_DECORATORS = frozenset(f"{app}().function" for app in _MODAL_APPS)


def asks_modal(call: Made) -> bool:
    """Whether a call is the decorator that asks Modal for a function's machine: `app.function(gpu="H100:4")`."""
    return call.name in _MODAL_DECORATORS


def _of_modal(scope: Scope) -> Iterator[tuple[PythonFunction, ast.Call]]:
    """The functions that `modal run` starts on machines of Modal's, each with the decorator that asks for these:
    `@app.function(gpu="H100:4")` (modal.com/docs/guide/gpu)."""
    for function, decorator in _decorated(scope):
        target = decorator.func if isinstance(decorator, ast.Call) else None
        if not isinstance(target, ast.Attribute) or target.attr != "function" or not isinstance(target.value, ast.Name):
            continue
        app = scope.find(target.value.id)
        if isinstance(decorator, ast.Call) and isinstance(app, Made) and app.name in _MODAL_APPS:
            yield function, decorator


def _decorated(scope: Scope) -> Iterator[tuple[PythonFunction, ast.expr]]:
    for value in list(scope.names.values()):
        node = value.node if isinstance(value, PythonFunction) else None
        for decorator in node.decorator_list if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else ():
            if isinstance(value, PythonFunction):
                yield value, decorator
