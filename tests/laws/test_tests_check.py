"""Every test checks something: one that asserts in a loop alone passes where there is nothing to loop over.

A check is certain if it stands in the test itself, or in a loop over a literal. Tests of Hypothesis are left out: it
draws until it has found enough.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
_COPIES = (
    "enumerate",
    "zip",
    "sorted",
    "reversed",
    "list",
    "tuple",
    "set",
    "product",
    "permutations",
    "items",
    "values",
)


def unsure(source: str) -> list[str]:
    """The names of the tests of a file that may end without a check."""
    tree = ast.parse(source)
    constants = _assigned(tree.body)
    shared = {name.asname or name.name for one in tree.body if isinstance(one, ast.ImportFrom) for name in one.names}
    constants |= {name: ast.Tuple([ast.Constant(0)]) for name in shared if name.isupper()}  # of another test file
    checking = _checking(tree)
    tests = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test")]
    return [
        test.name
        for test in tests
        if not any(isinstance(one, ast.Call) and ast.unparse(one.func) == "given" for one in test.decorator_list)
        and any(isinstance(one, ast.Assert) for one in ast.walk(test))
        and not _checks(test.body, {**constants, **_assigned(test.body)}, checking)
    ]


def _assigned(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for one in body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            found[one.targets[0].id] = one.value
        elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None:
            found[one.target.id] = one.value
    return found


def _checking(tree: ast.Module) -> set[str]:
    """The functions that check something, at whatever depth of the file they are defined."""
    functions = [one for one in ast.walk(tree) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    helpers = [one for one in functions if not one.name.startswith("test")]
    return {one.name for one in helpers if any(isinstance(inner, ast.Assert) for inner in ast.walk(one))}


def _checks(body: Iterable[ast.stmt], constants: Mapping[str, ast.expr], checking: set[str]) -> bool:
    return any(_certainly_checks(one, constants, checking) for one in body)


def _certainly_checks(one: ast.stmt, constants: Mapping[str, ast.expr], checking: set[str]) -> bool:
    if isinstance(one, ast.Assert):
        return True
    if isinstance(one, (ast.With, ast.AsyncWith)):
        expects = any("raises" in ast.unparse(item) or "warns" in ast.unparse(item) for item in one.items)
        return expects or _checks(one.body, constants, checking)
    if isinstance(one, ast.For):
        return _is_filled(one.iter, constants) and _checks(one.body, constants, checking)
    if isinstance(one, ast.While):
        return _checks(one.body, constants, checking)
    if isinstance(one, ast.If):
        return all(_checks(branch, constants, checking) for branch in (one.body, one.orelse))
    if isinstance(one, ast.Try):
        return _checks(one.body, constants, checking) or _checks(one.orelse, constants, checking)
    if isinstance(one, ast.Expr):
        return any(isinstance(name, ast.Name) and name.id in checking for name in ast.walk(one))
    return False


def _is_filled(values: ast.expr, constants: Mapping[str, ast.expr]) -> bool:
    """Whether an expression is certainly a collection of one value at least."""
    if isinstance(values, (ast.Tuple, ast.List, ast.Set)):
        return bool(values.elts)
    if isinstance(values, ast.Dict):
        return bool(values.keys)
    if isinstance(values, ast.Name):
        return values.id in constants and _is_filled(constants[values.id], constants)
    if isinstance(values, ast.BinOp):
        return _is_filled(values.left, constants) or _is_filled(values.right, constants)
    if isinstance(values, ast.Call):
        name = ast.unparse(values.func).rpartition(".")[2]
        of = [values.func.value] if isinstance(values.func, ast.Attribute) and not values.args else values.args
        return name == "range" or (name in _COPIES and bool(of) and all(_is_filled(one, constants) for one in of))
    return False


@pytest.mark.parametrize("folder", sorted({path.parent for path in TESTS.rglob("test_*.py")}), ids=str)
def test_every_test_checks_something(folder: Path) -> None:
    found = [f"{path.name}: {name}" for path in folder.glob("test_*.py") for name in unsure(path.read_text("utf-8"))]
    assert found == [], "assert that there is something to check"


@pytest.mark.parametrize(
    ("body", "is_unsure"),
    [
        ("    for one in found():\n        assert one\n", True),
        ("    if found():\n        assert True\n", True),
        ("    for one in []:\n        assert one\n", True),
        ("    for one in (1, 2):\n        assert one\n", False),
        ("    for one in sorted({1, 2}):\n        assert one\n", False),
        ("    rows = found()\n    assert rows\n    for one in rows:\n        assert one\n", False),
        ("    with pytest.raises(ValueError):\n        found()\n", False),
    ],
)
def test_what_counts_as_a_check(body: str, is_unsure: bool) -> None:
    assert unsure(f"def test_it():\n{body}") == (["test_it"] if is_unsure else [])
