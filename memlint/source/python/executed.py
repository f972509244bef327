"""`exec(open("configurator.py").read())`: code of another file of the repository that sets names of this one.

It is followed like the script's own code, and like it not executed. nanoGPT's configurator, which its many copies
share, takes configurations in Python and `--name=value` from the command line (karpathy/nanoGPT, configurator.py).
"""

from __future__ import annotations

import posixpath

from memlint.source.python.reader import Call, Frame, Reader, plain_word
from memlint.source.python.text import SourceText
from memlint.source.python.values import Known, Made, Value

EXECUTES = "exec"


def follow_executed(reader: Reader, given: Call, frame: Frame) -> None:
    """Follows the file whose text `exec` gets, with the names of `frame`."""
    module = _module_at(reader, _opened(given.positional[0])) if given.positional else None
    mark = hash((EXECUTES, module.path if module is not None else ""))
    if module is None or mark in reader.budget.running:
        return
    reader.budget.running.append(mark)
    try:
        if "sys.argv" in module.text and "globals()" in module.text:
            _configure(reader, frame)
        else:
            reader.execute(reader, module.tree.body, Frame(module, frame.scope))
    finally:
        reader.budget.running.pop()


def _configure(reader: Reader, frame: Frame) -> None:
    for word in reader.command.positional:
        module = _module_at(reader, word)
        if module is not None:
            reader.execute(reader, module.tree.body, Frame(module, frame.scope))
    for name, words in reader.command.options.items():
        if name in frame.scope.names:
            frame.scope.names[name] = plain_word(words)


def _opened(text: Value) -> Value | None:
    """The path of `open(path).read()`."""
    opened = text.base if isinstance(text, Made) and text.last == "read" else text
    return opened.positional[0] if isinstance(opened, Made) and opened.last == "open" and opened.positional else None


def _module_at(reader: Reader, path: Value | None) -> SourceText | None:
    """The Python file at a path from the script's folder or one above it."""
    if not isinstance(path, Known) or not str(path.value).endswith(".py"):
        return None
    folder = posixpath.dirname(reader.script)
    while True:
        found = reader.module_at(posixpath.normpath(posixpath.join(folder, str(path.value))))
        if found is not None or not folder:
            return found
        folder = posixpath.dirname(folder)
