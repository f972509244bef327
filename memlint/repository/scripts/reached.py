"""Finds the parts of a program's modules that it cannot reach: a package imports all its trainers, a program makes one.

A class or function at the top of a module is reached where reached code names it, as a name, an attribute or a text
(`registry["own"]`), or where a decorator may register it. What runs when a module is imported is always reached.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memlint._record import NamedTuple

_Defined = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class _Top(NamedTuple):
    """A class or function at the top of a module: where it stands, and the names that its code has."""

    path: str
    node: ast.AST
    names: frozenset[str]

    @property
    def lines(self) -> range:
        return range(self.node.lineno, (self.node.end_lineno or 0) + 1)  # type: ignore[attr-defined]


def unreached(trees: Sequence[tuple[str, ast.Module]]) -> Mapping[str, list[range]]:
    """The lines of each module that the program does not reach. `trees`: path and syntax tree of the modules, the
    program first."""
    waiting = {name for _, tree in trees[1:] for name in _at_import(tree, False)}
    waiting |= {name for _, tree in trees[:1] for name in {*_at_import(tree, True)} - _own_names(tree)}
    defined = [top for path, tree in trees[1:] for top in _tops(path, tree)]
    left = [top for top in defined if not _is_registered(top.node)]
    for top in defined:
        if _is_registered(top.node):
            waiting |= top.names
    while reached := [top for top in left if _defines(top.node) in waiting]:
        waiting |= {name for top in reached for name in top.names}
        left = [top for top in left if _defines(top.node) not in waiting]
    found: dict[str, list[range]] = {}
    for top in left:
        found.setdefault(top.path, []).append(top.lines)
    return found


def of_other_programs(
    trees: Sequence[tuple[str, ast.Module]], left_out: Mapping[str, Sequence[range]]
) -> Mapping[str, list[range]]:
    """Of what is not reached, what other programs begin with: `main` in the block that an import does not run."""
    begun = {
        path: {name for node in tree.body if _is_for_programs(node) for name in _names(ast.walk(node))}
        for path, tree in trees[1:]
    }
    starts = {
        path: [top.lines for top in _tops(path, tree) if _defines(top.node) in begun[path]] for path, tree in trees[1:]
    }
    found = {path: [one for one in lines if one in starts.get(path, ())] for path, lines in left_out.items()}
    return {path: lines for path, lines in found.items() if lines}


def _tops(path: str, tree: ast.Module) -> Iterator[_Top]:
    for node in tree.body:
        if isinstance(node, _Defined):
            yield _Top(path, node, frozenset(_names(ast.walk(node))))


def _at_import(tree: ast.Module, is_program: bool) -> Iterator[str]:
    """The names of the code that runs when the module is imported; of all code, for the program itself. `__all__`
    names what a package offers, not what a program takes of it."""
    for node in tree.body:
        if is_program or not (isinstance(node, _Defined) or _is_offer(node) or _is_for_programs(node)):
            yield from _names(ast.walk(node))


def _own_names(tree: ast.Module) -> frozenset[str]:
    """The names that the program itself defines, such as its `main`: another module's is another. One that it takes
    from a class of the same name, `class Own(other.Own)`, counts as used."""
    defined = {node.name: node for node in tree.body if isinstance(node, _Defined)}
    used = {name for node in defined.values() if isinstance(node, ast.ClassDef) for name in _names(_bases(node))}
    return frozenset(defined.keys() - used)


def _bases(node: ast.ClassDef) -> Iterator[ast.AST]:
    return (inner for base in node.bases for inner in ast.walk(base))


def _is_for_programs(node: ast.stmt) -> bool:
    """Whether it is the block of a module that an import does not run: `if __name__ == "__main__":`."""
    test = node.test if isinstance(node, ast.If) else None
    is_name = isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
    return is_name and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq)


def _is_offer(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


def _names(found: Iterable[ast.AST]) -> Iterator[str]:
    for node in found:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.alias) and node.asname:  # `from x import Own as Other`
            yield node.name


def _is_registered(node: ast.AST) -> bool:
    """Whether a decorator may register it; `@dataclass` does not."""
    return any("dataclass" not in _names(ast.walk(one)) for one in getattr(node, "decorator_list", ()))


def _defines(node: ast.AST) -> str:
    return str(getattr(node, "name", ""))
