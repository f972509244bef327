"""Assignments, and the commands that change the shell itself: `cd`, `export`, `shift`, `set --`, `read`, `exit`, ..."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from memlint.source.shell import filters
from memlint.source.shell.expansion import Expander
from memlint.source.shell.programs import is_output
from memlint.source.shell.state import State, Truth, Variable, path_in
from memlint.source.shell.text import Text, Word, cut, joined, known, literal, shown, split, trimmed, unknown
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_KEYED = re.compile(r"\[(.+?)\]=")


def assigned(
    expander: Expander, node: Node, source: Source, state: State, more: Sequence[Node] = ()
) -> tuple[str, Text]:
    """(name, value) of `NAME=value` before a command. `more`: nodes that the value goes on with."""
    name = node.child_by_field_name("name")
    return source.of(name) if name is not None else "", _value(expander, node, source, state, more)


def assign(expander: Expander, node: Node, source: Source, state: State, more: Sequence[Node] = ()) -> None:
    """`NAME=value`, `NAME+=value`, `NAME=(words)`, `NAME[key]=value`. `more`: nodes that the value goes on with."""
    target = node.child_by_field_name("name")
    if target is None:
        return
    name = source.of(target)
    if target.type == "subscript":
        name = _subscript(expander, target, source, state)
    adds = any(child.type == "+=" for child in node.children)
    value = node.child_by_field_name("value")
    if value is not None and value.type == "array":
        _assign_array(name, expander.array(value, source, state), adds, state)
        return
    text = _value(expander, node, source, state, more)
    before = state.variables.get(name)
    if adds and before is not None and before.is_array:
        first = Word(joined((before.value, text)))
        state.variables[name] = Variable((first, *before.words[1:]), True)
    elif adds:
        old = before.value if before is not None else ()
        state.variables[name] = Variable((Word(joined((old, text))),))
    else:
        whole = source.where(*source.span(value)) if value is not None else None
        state.variables[name] = Variable((Word(text, whole),))


def _value(expander: Expander, node: Node, source: Source, state: State, more: Sequence[Node] = ()) -> Text:
    value = node.child_by_field_name("value")
    return expander.text_of_row((value, *more), source, state) if value is not None else ()


def _subscript(expander: Expander, node: Node, source: Source, state: State) -> str:
    index = node.child_by_field_name("index")
    base = node.child_by_field_name("name")
    key = shown(expander.text(index, source, state)) if index is not None else ""
    return f"{source.of(base) if base is not None else ''}[{key}]"


def _assign_array(name: str, words: tuple[Word, ...], adds: bool, state: State) -> None:
    keyed = [(match, word) for word in words if (match := _KEYED.match(word.text))]
    for match, word in keyed:
        state.variables[f"{name}[{match[1]}]"] = Variable((word.after(match.end()),))
    plain = tuple(word for word in words if not _KEYED.match(word.text))
    before = state.variables.get(name) if adds else None
    state.variables[name] = Variable(((*before.words, *plain) if before else plain), True)


def declare(expander: Expander, node: Node, source: Source, state: State) -> None:
    """`export A=1 B`, `local x`, `declare -a ...`, `readonly ...`."""
    kind = node.children[0].type if node.children else ""
    for child in node.named_children:
        if child.type in ("concatenation", "string") and kind == "export":
            _export_computed(expander.text(child, source, state), state)
        name = child.child_by_field_name("name") if child.type == "variable_assignment" else child
        if name is None or child.type not in ("variable_assignment", "variable_name"):
            continue
        plain = source.of(name)
        if kind in ("local", "declare", "typeset"):
            make_local(plain, state)
        if child.type == "variable_assignment":
            assign(expander, child, source, state)
        elif kind in ("local", "declare", "typeset"):
            state.variables[plain] = Variable((), kind != "local")
        if kind == "export" or "-x" in source.of(node).split()[1:2]:
            state.exported |= {plain}


def _export_computed(text: Text, state: State) -> None:
    """`export ${DEVICES}=0,1`: the name is computed."""
    name, is_set, _ = shown(text).partition("=")
    if is_set and name.isidentifier():
        state.set(name, cut(text, len(name) + 1))
        state.exported |= {name}


def make_local(name: str, state: State) -> None:
    """Makes a variable local: remembers its value outside of the function."""
    if state.local is not None and name not in state.local:
        state.local[name] = state.variables.get(name)


def _cd(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.status = Truth(True)
    names = [word for word in words[1:] if word.text not in ("--", "-P", "-L")]
    path = path_in(state.folder, names[0].pieces) if names else None
    if path is None:
        if names and _is_below_output(shell, names[0], state):
            state.folder, state.elsewhere = posixpath.join(state.folder, names[0].text), ""
        return
    found = shell.surroundings.find(path, "folder")
    state.elsewhere = ""
    if found is not None:
        state.folder = found
    elif posixpath.isabs(names[0].text):
        state.elsewhere = path  # usually the repository on the author's machine: the working folder does not change
    else:
        state.folder = path


def _is_below_output(shell: Any, word: Word, state: State) -> bool:
    """Whether the word names a folder below one that a program prints, and the repository has none of that name:
    `cd "$(pip show llmtuner | ...)/llmtuner"` changes to an installed package."""
    *_, last = word.pieces
    before = word.pieces[-2].unknown if len(word.pieces) > 1 else ""
    below = last.text.strip("/")
    if last.unknown or not below or not is_output(before):
        return False
    return shell.surroundings.find(posixpath.normpath(posixpath.join(state.folder, below)), "folder") is None


def _pwd(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.print(literal(state.folder + "\n"))


def _echo(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.status = Truth(True)
    state.print(filters.echo([word.pieces for word in words[1:]]))


def _printf(shell: Any, words: tuple[Word, ...], state: State) -> None:
    if words[1:2] and words[1].text == "-v" and len(words) > 3:
        state.set(words[2].text, filters.printf([word.pieces for word in words[3:]]))
    else:
        state.print(filters.printf([word.pieces for word in words[1:]]))


def _shift(shell: Any, words: tuple[Word, ...], state: State) -> None:
    count = known(words[1].pieces) if len(words) > 1 else "1"
    if count is not None and count.isdigit():
        state.arguments = (state.arguments[0], *state.arguments[1 + int(count) :])


def _set(shell: Any, words: tuple[Word, ...], state: State) -> None:
    texts = [word.text for word in words]
    if "--" in texts:
        state.arguments = (state.arguments[0], *words[texts.index("--") + 1 :])
        state.takes_more = False


def _exit(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.is_dead = True


def _return(shell: Any, words: tuple[Word, ...], state: State) -> None:
    code = known(words[1].pieces) if len(words) > 1 else "0"
    state.status = Truth(None) if code is None else Truth(code == "0")
    state.left = "return"


def _leave(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.left = words[0].text


def _true(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.status = Truth(True)


def _false(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.status = Truth(False)


def _read(shell: Any, words: tuple[Word, ...], state: State) -> None:
    """`read a b`, `IFS=, read -ra list`: sets the variables from the known input, else to unknown values."""
    names, is_array = [], False
    index = 1
    while index < len(words):
        text = words[index].text
        if text.startswith("-"):
            is_array = is_array or "a" in text[1:]
            index += 2 if text[-1] in "pdntuiN" and len(text) == 2 else 1
            continue
        names.append(text)
        index += 1
    state.status = Truth(None)
    given = trimmed(state.input) if state.input is not None else None
    if given is None or (known(given) is None and not (_is_partly_known(given) and len(names) == 1 and not is_array)):
        for name in names:
            state.set(name, unknown(f"${{{name}}}", f"`{name}` is read from input"))
        return
    separator = "," if "," in shown(given) and " " not in shown(given).strip() else " \t\n"
    fields = split(tuple(piece._replace(quoted=False) for piece in given), separator)
    if is_array:
        state.variables[names[0] if names else "REPLY"] = Variable(tuple(Word(field) for field in fields), True)
        return
    for position, name in enumerate(names):
        last = position == len(names) - 1
        rest = [
            part for number, field in enumerate(fields[position:]) for part in (literal(" ") if number else (), field)
        ]
        state.set(name, joined(rest) if last else fields[position] if position < len(fields) else ())


def _is_partly_known(given: Text) -> bool:
    """Whether a here-document has known words besides unknown ones."""
    return any(piece.text.strip() and not piece.unknown for piece in given)


def _let(shell: Any, words: tuple[Word, ...], state: State) -> None:
    for word in words[1:]:
        name, _, expression = word.text.partition("=")
        if name.isidentifier() and expression:
            state.set(name, shell.expander.computed(literal(expression), state))


def _getopts(shell: Any, words: tuple[Word, ...], state: State) -> None:
    state.status = Truth(False)


def _unset(shell: Any, words: tuple[Word, ...], state: State) -> None:
    for word in words[1:]:
        state.variables.pop(word.text, None)


BUILTINS: dict[str, Callable[[Any, tuple[Word, ...], State], None]] = {
    "cd": _cd,
    "pushd": _cd,
    "pwd": _pwd,
    "echo": _echo,
    "printf": _printf,
    "shift": _shift,
    "set": _set,
    "exit": _exit,
    "return": _return,
    "break": _leave,
    "continue": _leave,
    "true": _true,
    ":": _true,
    "false": _false,
    "read": _read,
    "let": _let,
    "getopts": _getopts,
    "unset": _unset,
    **dict.fromkeys(("trap", "ulimit", "umask", "alias", "shopt", "module", "wait", "hash", "popd", "type"), _true),
    **dict.fromkeys(("mkdir", "sleep", "touch"), _true),
}
