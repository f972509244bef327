"""What a loop does in every n-th round alone: `if (step + 1) % 4 == 0: optimizer.step()`, or behind a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from memlint.source.python.reader import Frame, Reader
from memlint.source.python.values import Known, Made, Undetermined, ValueSource

EVERY = "every n-th round"  # the name of what is observed; `rounds`: n, `calls`: the methods, with their objects


def observe_rounds(reader: Reader, node: ast.If, frame: Frame) -> None:
    """Observes the methods that are called where a counter is a multiple of a number, or has come up to it."""
    for number in _numbers(node):  # first: few conditions have one, and a body may be long
        calls = " ".join(_methods(node.body))
        if not calls:
            return
        source = ValueSource(frame.module.path, frame.module.span(node))
        rounds = reader.evaluate(reader, number, frame)
        reader.observe(Made(EVERY, (), {"rounds": rounds, "calls": Known(calls)}, source))
        return


def observe_skipped_rounds(reader: Reader, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    """Observes a step that stands behind `if step % n != 0: continue` in a loop."""
    for place, one in enumerate(node.body):
        number = _skips(one) if isinstance(one, ast.If) else None
        if number is None:  # as of nearly all statements, and what follows may be long
            continue
        calls = [name for name in _methods(node.body[place + 1 :]) if name.endswith(".step")]
        if calls:
            source = ValueSource(frame.module.path, frame.module.span(one))
            rounds = reader.evaluate(reader, number, frame)
            reader.observe(Made(EVERY, (), {"rounds": rounds, "calls": Known(" ".join(calls))}, source))
            return


def _skips(node: ast.If) -> ast.expr | None:
    """n of `if step % n != 0: continue` and `if step % n: continue`."""
    test = node.test
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotEq):
        zero = test.comparators[0]
        test = test.left if isinstance(zero, ast.Constant) and zero.value == 0 else zero
    is_modulo = isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod)
    return test.right if is_modulo and isinstance(node.body[-1], ast.Continue) else None  # type: ignore[attr-defined]


@lru_cache(maxsize=1024)  # loops of a program, which are followed again for each command that starts it
def below(loop: ast.For | ast.AsyncFor | ast.While) -> tuple[ast.AST, ...]:
    """All nodes of a loop's body."""
    return tuple(one for statement in loop.body for one in ast.walk(statement))


def observe_named_rounds(reader: Reader, node: ast.For | ast.AsyncFor | ast.While, frame: Frame) -> None:
    """Observes a step below `if not is_accumulating`, where `is_accumulating = count % n != 0` stands before it."""
    inner = below(node)
    numbers = dict(_named_numbers(inner))
    for one in inner if numbers else ():
        number = numbers.get(_tested(one)) if isinstance(one, ast.If) else None
        calls = [name for name in _methods(one.body) if name.endswith(".step")] if isinstance(one, ast.If) else []
        if number is not None and calls:
            source = ValueSource(frame.module.path, frame.module.span(one))
            rounds = reader.evaluate(reader, number, frame)
            reader.observe(Made(EVERY, (), {"rounds": rounds, "calls": Known(" ".join(calls))}, source))
            return


def _named_numbers(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """(`is_accumulating`, n) of `is_accumulating = count % n != 0`."""
    for one in nodes:
        left = one.value.left if isinstance(one, ast.Assign) and isinstance(one.value, ast.Compare) else None
        if isinstance(one, ast.Assign) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
            yield getattr(one.targets[0], "id", ""), left.right


def _tested(node: ast.If) -> str:
    """`name` of `if name:` and `if not name:`."""
    test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
    return test.id if isinstance(test, ast.Name) else ""


def observe_accumulation(reader: Reader, node: ast.For | ast.AsyncFor, frame: Frame) -> None:
    """Observes that a step follows n backward passes: `for _ in range(n): ... loss.backward()`, and none of the loop's
    own calls is a step."""
    if not (isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "range"):
        return
    calls = list(_methods(node.body))
    if not any(name.endswith(".backward") for name in calls) or any("step" in name for name in _called(node.body)):
        return
    given = node.iter.args
    source = ValueSource(frame.module.path, frame.module.span(node))
    rounds = reader.evaluate(reader, given[0], frame) if len(given) == 1 else Undetermined("a loop computes it", source)
    reader.observe(Made(EVERY, (), {"rounds": rounds, "calls": Known("optimizer.step")}, source))


def _called(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names of all functions and methods that a block calls."""
    for statement in body:
        for one in ast.walk(statement):
            if isinstance(one, ast.Call):
                yield str(getattr(one.func, "attr", getattr(one.func, "id", ""))).lower()


def _numbers(node: ast.If) -> Iterator[ast.expr]:
    """4 of `step % 4 == 0`, `not step % 4`, and of `count == 4`, behind which `count` starts again."""
    for one in ast.walk(node.test):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod):
            yield one.right
        if isinstance(one, ast.Compare) and isinstance(one.ops[0], (ast.Eq, ast.GtE)) and _restarts(node, one.left):
            yield one.comparators[0]


def _restarts(node: ast.If, counter: ast.expr) -> bool:
    sets = (one for one in node.body if isinstance(one, ast.Assign) and getattr(one.value, "value", None) == 0)
    return any(ast.unparse(target) == ast.unparse(counter) for one in sets for target in one.targets)


def _methods(body: Sequence[ast.stmt]) -> Iterator[str]:
    """`optimizer.step` of `self.optimizer.step()`, in a block and the blocks below it."""
    for statement in body:
        for one in ast.walk(statement):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
                owner = one.func.value
                yield f"{getattr(owner, 'attr', getattr(owner, 'id', ''))}.{one.func.attr}"
