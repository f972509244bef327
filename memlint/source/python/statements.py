"""Follows statements in order. If it is unknown which branch runs, both are followed and their results merged."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from memlint.source.python import modules, operations
from memlint.source.python.calls import apply, arguments
from memlint.source.python.classes import define
from memlint.source.python.expressions import assign, evaluate, reason_of
from memlint.source.python.limits import MAX_ROUNDS
from memlint.source.python.members import elements, part_of
from memlint.source.python.reader import UNKNOWN_ROUNDS, Call, Frame, Reader
from memlint.source.python.rounds import (
    below,
    observe_accumulation,
    observe_named_rounds,
    observe_rounds,
    observe_skipped_rounds,
)
from memlint.source.python.values import (
    External,
    Items,
    Known,
    PythonFunction,
    Scope,
    Undetermined,
    Value,
    ValueSource,
    either,
)

# How a block ends: it continues, or leaves a function, an iteration, a loop, or everything by an exception.
GOES_ON, RETURN, CONTINUE, BREAK, RAISE = "", "return", "continue", "break", "raise"


def execute(reader: Reader, body: Sequence[ast.stmt], frame: Frame) -> str:
    """Follows statements and returns how they end. Raises StopReading."""
    for statement in body:
        reader.budget.spend()
        function = _BY_TYPE.get(type(statement))
        ends = function(reader, statement, frame) if function else GOES_ON
        if ends:
            return ends
    return GOES_ON


def _assign(reader: Reader, node: ast.Assign, frame: Frame) -> str:
    value = evaluate(reader, node.value, frame)
    for target in node.targets:
        assign(reader, target, value, frame)
    return GOES_ON


def _annotated(reader: Reader, node: ast.AnnAssign, frame: Frame) -> str:
    if node.value is not None:
        assign(reader, node.target, evaluate(reader, node.value, frame), frame)
    return GOES_ON


def _augmented(reader: Reader, node: ast.AugAssign, frame: Frame) -> str:
    old = evaluate(reader, node.target, frame)
    new = evaluate(reader, node.value, frame)
    if isinstance(old, Items) and isinstance(node.op, ast.Add) and not reader.in_doubt:
        found = elements(new)
        old.values += found or []
        old.is_open = old.is_open or found is None
        return GOES_ON
    assign(reader, node.target, operations.binary(node.op, old, new), frame)
    return GOES_ON


def _expression(reader: Reader, node: ast.Expr, frame: Frame) -> str:
    value = evaluate(reader, node.value, frame)
    ends = isinstance(value, External) and value.name in ("sys.exit()", "exit()")
    return RAISE if ends else GOES_ON


def _return(reader: Reader, node: ast.Return, frame: Frame) -> str:
    frame.returned.append(evaluate(reader, node.value, frame) if node.value else Known(None))
    return RETURN


def _if(reader: Reader, node: ast.If, frame: Frame) -> str:
    observe_rounds(reader, node, frame)
    test = evaluate(reader, node.test, frame)
    known = operations.truth(test)
    if known is not None:
        return _follow_branch(reader, node, known, frame)
    return _follow_branches(reader, (node.body, node.orelse), frame, reason_of(test))


def _follow_branch(reader: Reader, node: ast.If, test: bool, frame: Frame) -> str:
    """Follows the branch that is taken, but not one that ends in an exception: it is assumed that the script works (a
    token is in the environment, a file that the repository lacks exists)."""
    if test and _gives_up_without_file(node):
        return GOES_ON
    before = dict(frame.scope.names)
    ends = execute(reader, node.body if test else node.orelse, frame)
    if ends != RAISE:
        return ends
    frame.scope.names = before
    return execute(reader, node.orelse if test else node.body, frame)


_ASKS_FOR_FILE = frozenset({"exists", "isfile", "is_file"})


def _gives_up_without_file(node: ast.If) -> bool:
    """Whether a branch says that a file is missing and leaves its function without a result: `if not
    os.path.exists("train.json"): print("no data"); return`."""
    if not (isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)) or node.orelse:
        return False
    asked = node.test.operand
    function = asked.func if isinstance(asked, ast.Call) else None
    name = getattr(function, "attr", getattr(function, "id", ""))
    *says, last = node.body
    leaves = isinstance(last, ast.Return) and (last.value is None or isinstance(last.value, ast.Constant))
    inner = (one for statement in says for one in ast.walk(statement) if isinstance(one, ast.stmt))
    return name in _ASKS_FOR_FILE and leaves and all(isinstance(one, (ast.Expr, ast.If)) for one in inner)


def _follow_branches(reader: Reader, branches: Sequence[Sequence[ast.stmt]], frame: Frame, reason: str) -> str:
    """Follows each branch from the same names and merges the results. A branch that leaves the block is not merged."""
    before = dict(frame.scope.names)
    ends: list[str] = []
    results: list[dict[str, Value]] = []
    for branch in branches:
        frame.scope.names = dict(before)
        with reader.doubt(reason) as changes:
            end = execute(reader, branch, frame)
        ends.append(end)
        if end == RETURN:
            frame.leave(changes)
        if end == GOES_ON:
            results.append(frame.scope.names)
    frame.scope.names = _merged(results, reason) if results else before
    if results:
        return GOES_ON
    return RETURN if RETURN in ends else ends[0]


def _merged(results: list[dict[str, Value]], reason: str) -> dict[str, Value]:
    """The names after several branches. A name that only some of them set may be missing."""
    merged = {}
    first, *others = results
    for name in {name for names in results for name in names}:
        before = first.get(name)
        if before is not None and all(names.get(name) is before for names in others):
            merged[name] = before  # no branch sets it: most names
            continue
        values = [names.get(name) or Undetermined(reason) for names in results]
        merged[name] = either(values, reason)
    return merged


def _for(reader: Reader, node: ast.For | ast.AsyncFor, frame: Frame) -> str:
    observe_accumulation(reader, node, frame)
    observe_skipped_rounds(reader, node, frame)
    observe_named_rounds(reader, node, frame)
    iterated = evaluate(reader, node.iter, frame)
    values = elements(iterated)
    if values is None or len(values) > MAX_ROUNDS:
        with reader.doubt(UNKNOWN_ROUNDS):
            assign(reader, node.target, part_of(iterated), frame)
            return _one_iteration(reader, node, frame)
    for value in values:
        assign(reader, node.target, value, frame)
        ends = execute(reader, node.body, frame)
        if ends in (RETURN, RAISE):
            return ends
        if ends == BREAK:
            break
    return execute(reader, node.orelse, frame)


def _one_iteration(reader: Reader, loop: ast.For | ast.AsyncFor | ast.While, frame: Frame) -> str:
    """Follows one iteration of a loop whose number of iterations is unknown. Numbers that it adds to are any number."""
    for node in (one for one in below(loop) if isinstance(one, ast.AugAssign)):
        target = node.target
        name = target.id if isinstance(target, ast.Name) else ""
        before = frame.scope.names.get(name) if name else evaluate(reader, target, frame)
        if isinstance(before, Known) and isinstance(before.value, (int, float)):
            assign(reader, target, Undetermined("counts in a loop whose rounds memlint does not know"), frame)
    _follow_branches(reader, (loop.body, ()), frame, UNKNOWN_ROUNDS)
    return GOES_ON


def _while(reader: Reader, node: ast.While, frame: Frame) -> str:
    observe_named_rounds(reader, node, frame)
    evaluate(reader, node.test, frame)
    return _one_iteration(reader, node, frame)


def _with(reader: Reader, node: ast.With | ast.AsyncWith, frame: Frame) -> str:
    for item in node.items:
        value = evaluate(reader, item.context_expr, frame)
        if item.optional_vars is not None:
            assign(reader, item.optional_vars, value, frame)
    return execute(reader, node.body, frame)


def _try(reader: Reader, node: ast.Try, frame: Frame) -> str:
    """Follows the body as if nothing failed. Handlers are followed only if the body ends with a `raise`."""
    ends = execute(reader, node.body, frame)
    if ends == RAISE and node.handlers:
        ends = execute(reader, node.handlers[0].body, frame)
    elif ends == GOES_ON:
        ends = execute(reader, node.orelse, frame)
    return execute(reader, node.finalbody, frame) or ends


def _define_function(reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame) -> str:
    found: Value = PythonFunction(node, frame.module, frame.scope)
    for decorator in reversed(node.decorator_list):
        found = _decorated(reader, decorator, found, frame)
    frame.scope.names[node.name] = found
    return GOES_ON


def _decorated(reader: Reader, decorator: ast.expr, function: Value, frame: Frame) -> Value:
    """The result of applying a decorator: that of a known library (`@hydra.main(...)`), else the function itself."""
    call = decorator if isinstance(decorator, ast.Call) else None
    target = evaluate(reader, call.func if call else decorator, frame)
    if isinstance(target, PythonFunction):
        _register(reader, decorator, target, function, frame)
        return function
    known = reader.library(f"@{target.name}") if isinstance(target, External) else None
    if known is None:
        return function
    given = arguments(reader, call, frame) if call else Call("", (), {}, ValueSource(frame.module.path))
    return known(reader, given._replace(owner=function)) or function


def _register(reader: Reader, decorator: ast.expr, target: Value, decorated: Value, frame: Frame) -> None:
    """Follows a decorator of the repository, as it may keep what it decorates: `@register_trainer("dpo")`."""
    if isinstance(decorator, ast.Call):
        target = apply(reader, target, arguments(reader, decorator, frame))
    if isinstance(target, PythonFunction):
        source = ValueSource(frame.module.path, frame.module.span(decorator))
        apply(reader, target, Call("", (decorated,), {}, source))


def _define_class(reader: Reader, node: ast.ClassDef, frame: Frame) -> str:
    found = define(reader, node, frame)
    frame.scope.names[node.name] = found
    for decorator in reversed(node.decorator_list):
        target = evaluate(reader, decorator.func if isinstance(decorator, ast.Call) else decorator, frame)
        if isinstance(target, PythonFunction):
            _register(reader, decorator, target, found, frame)
    return GOES_ON


def _import(reader: Reader, node: ast.Import, frame: Frame) -> str:
    for name in node.names:
        value = modules.imported(reader, name.name, 0, frame.module.path, execute)
        if name.asname:
            frame.scope.names[name.asname] = value
        else:
            top = name.name.partition(".")[0]
            frame.scope.names[top] = value if top == name.name else External(top)
    return GOES_ON


def _import_from(reader: Reader, node: ast.ImportFrom, frame: Frame) -> str:
    for name in node.names:
        found = modules.imported_name(reader, node.module or "", node.level, name.name, frame.module.path, execute)
        if isinstance(found, Scope):
            frame.scope.names.update({one: value for one, value in found.names.items() if one[:1] != "_"})
        elif name.name != "*":
            frame.scope.names[name.asname or name.name] = found
    return GOES_ON


def _delete(reader: Reader, node: ast.Delete, frame: Frame) -> str:
    for target in node.targets:
        if isinstance(target, ast.Name) and not reader.in_doubt:
            frame.scope.names.pop(target.id, None)
    return GOES_ON


def _match(reader: Reader, node: ast.Match, frame: Frame) -> str:
    subject = evaluate(reader, node.subject, frame)
    for case in node.cases:
        if isinstance(case.pattern, ast.MatchValue) and case.guard is None:
            equal = operations.compare(ast.Eq(), subject, evaluate(reader, case.pattern.value, frame))
            if equal:
                return execute(reader, case.body, frame)
            if equal is None:
                break
        elif isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None:
            return execute(reader, case.body, frame)
        else:
            break
    else:
        return GOES_ON
    return _follow_branches(reader, [*(case.body for case in node.cases), ()], frame, reason_of(subject))


def _raise(reader: Reader, node: ast.Raise, frame: Frame) -> str:
    if node.exc is not None:
        evaluate(reader, node.exc, frame)  # `raise SystemExit(main())` runs main
    return RAISE


def _leaves(ends: str) -> Callable[[Reader, Any, Frame], str]:
    return lambda reader, node, frame: ends


_BY_TYPE: dict[type[ast.stmt], Callable[[Reader, Any, Frame], str]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.FunctionDef: _define_function,
    ast.AsyncFunctionDef: _define_function,
    ast.ClassDef: _define_class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Delete: _delete,
    ast.Match: _match,
    ast.Raise: _raise,
    ast.Continue: _leaves(CONTINUE),
    ast.Break: _leaves(BREAK),
}
