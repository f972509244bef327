"""Generated edits of Python launches under the laws of writing: `python benchmarks/corpus/python_edits.py DATA [N]`.

DATA holds `repos/`, the files of each repository. For the runs of all scripts and notebooks there, N edits (300 unless
said) are made: a value is set, an argument is added. Each is placed, the result is held against laws 1 - 4
(memlint/fixes/laws.py), and the syntax tree of the script must be the old one but for one constant or one keyword.
Printed are how many were placed, how many were refused with a reason, and how many broke a law; exit 1 where one did.
"""

from __future__ import annotations

import ast
import collections
import random
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.corpus.script_edits import ADDED, changed, every_document, report
from memlint.findings import Edit
from memlint.source import load
from memlint.source.document import Document
from memlint.source.python import notebook
from memlint.source.python.text import SourceText

SUFFIXES = (".py", ".ipynb")


def main() -> int:
    command = parser(__doc__)
    command.add_argument("data")
    command.add_argument("number", nargs="?", type=int, default=300)
    options = command.parse_args()
    return report(list(documents(Path(options.data) / "repos")), an_edit, tree_says, options.number)


def documents(repositories: Path) -> Iterator[Document]:
    """The runs of all scripts and notebooks."""
    return (one for one in every_document(repositories, SUFFIXES) if one.syntax == "python" and one.value)


def an_edit(document: Document, chance: random.Random) -> Edit:
    """A random change of one run."""
    missing = [key for key in ADDED if key not in document.value]
    plain = [key for key, value in document.value.items() if isinstance(value, (int, float, bool, str))]
    if not plain or (missing and chance.random() < 0.3):
        key = chance.choice(missing or plain)
        return Edit(document.path, (key,), "set", ADDED.get(key, True))
    key = chance.choice(plain)
    return Edit(document.path, (key,), "set", changed(document.value[key], chance))


def tree_says(document: Document, new: str) -> list[str]:
    """What differs in the syntax tree besides one constant or one keyword; nothing for a configuration file."""
    if not document.path.endswith(SUFFIXES):
        return []
    before, after = _tree(document.path, document.text), _tree(document.path, new)
    if before is None or after is None:
        return [] if before is None else ["the script is no Python any more"]
    old, current = list(_shapes(before)), list(_shapes(after))
    changes = sum((collections.Counter(old) - collections.Counter(current)).values())
    added = sum((collections.Counter(current) - collections.Counter(old)).values())
    return [] if max(changes, added) <= 1 else [f"{changes} nodes of the tree are gone and {added} are new"]


def _tree(path: str, text: str) -> ast.AST | None:
    if path.endswith(".ipynb"):
        found = notebook.read(load(text.encode("utf-8"), path, syntax="json")[0])
        return found.tree if isinstance(found, SourceText) else None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _shapes(tree: ast.AST) -> Iterator[str]:
    """One line for each keyword argument and for each constant outside of one; a negative number counts as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            yield f"{node.arg}={_said(node.value)}"
        elif not isinstance(node, (ast.Call, ast.UnaryOp)):
            yield from (_said(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.Constant))
        elif isinstance(node, ast.Call):
            yield from (_said(one) for one in node.args if isinstance(one, ast.Constant))


def _said(node: ast.AST) -> str:
    return ast.dump(node) if isinstance(node, (ast.Constant, ast.UnaryOp, ast.List, ast.Tuple)) else type(node).__name__


if __name__ == "__main__":
    sys.exit(main())
