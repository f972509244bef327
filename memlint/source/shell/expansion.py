"""Expands the words of a script: quotes, variables, `${V:-x}`, arrays, arithmetic, the output of commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from memlint._record import NamedTuple
from memlint.source.shell.arithmetic import CannotCompute, compute
from memlint.source.shell.parameters import operated
from memlint.source.shell.state import State, Variable
from memlint.source.shell.text import (
    Piece,
    Text,
    Where,
    Word,
    joined,
    known,
    known_or_unset,
    literal,
    quoted,
    shown,
    split,
    unknown,
    why_unknown,
)
from memlint.source.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_WORDS = 4_096  # that one command may have
_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([\n$`\"\\])")
_PARAMETER = re.compile(r"\$\{([!#]?)(\w+|[@*#?$!-])(\[.*?\](?=[}:#%/^,@=+?-]))?", re.DOTALL)
_DOLLAR = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}|\{(-?\d{1,4})\.\.(-?\d{1,4})\}")
_IN_QUOTES = re.compile(r"'[^']*'|\"[^\"]*\"")
_WILDCARD = re.compile(r"[*?]")
# What a pattern of files looks like: `*/config.json`, `zero*.yaml`; `.*q_proj` is one of a model's modules.
_FILES = re.compile(r".*/.*|.*\.(?:ya?ml|jsonl?|toml|sh|py|parquet|csv|txt)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}
# Variables that every shell has and whose values are unknown here. `HOME` is not among them: it becomes `~`.
_SET_BY_THE_SYSTEM = frozenset(
    ("USER", "LOGNAME", "HOSTNAME", "PATH", "RANDOM", "UID", "EUID", "PPID", "SECONDS", "LINENO", "PYTHONPATH", "SHELL")
)
MOST_WORK = 1_000_000  # characters and words that following one script may produce, including copies of variables


class WorkLimitReached(Exception):
    """The script produces more than any real one. What was found so far is used."""


Substitute = Callable[["Node", Source, State], Text]


class Field(NamedTuple):
    """A field that a part of a word expands to. `"${A[@]}"` gives several, each with its own place."""

    pieces: Text
    at: Where | None = None


class Expander:
    """Expands words. `substitute`: follows the commands of `$(...)` and returns their output."""

    def __init__(self, substitute: Substitute, defaults: dict[str, Text] | None = None) -> None:
        self._substitute = substitute
        self._defaults = defaults or {}
        self._work = 0
        self.given: frozenset[str] = frozenset()  # expressions assumed to have a value, as the script stops without one

    def spend(self, amount: int) -> None:
        """Counts work. Raises WorkLimitReached beyond `MOST_WORK`."""
        self._work += amount
        if self._work > MOST_WORK:
            raise WorkLimitReached

    def start(self) -> None:
        """Resets the count of work."""
        self._work = 0

    def words(self, nodes: Sequence[Node], source: Source, state: State) -> tuple[Word, ...]:
        """The words that the nodes of a command expand to."""
        found: list[Word] = []
        for row in unbroken(nodes, source):
            more = list(self._split(row, source, state))
            self.spend(sum(10 + len(one.text) for one in more))
            found += more
            if len(found) > MOST_WORDS:
                return tuple(found[:MOST_WORDS])
        return tuple(found)

    def text(self, node: Node | None, source: Source, state: State) -> Text:
        """The expansion of a node as one value that is not split into words, as in an assignment."""
        return self.text_of_row((node,), source, state) if node is not None else ()

    def text_of_row(self, nodes: Sequence[Node], source: Source, state: State) -> Text:
        """The same of several nodes without blanks between them."""
        fields = self._row(nodes, source, state, False)
        self.spend(1 + sum(len(piece.text) for one in fields for piece in one.pieces))
        return joined(
            part for index, one in enumerate(fields) for part in ((literal(" ") if index else ()), one.pieces)
        )

    def array(self, node: Node, source: Source, state: State) -> tuple[Word, ...]:
        return self.listed(
            [child for child in node.children if child.is_named and child.type != "comment"], source, state
        )

    def listed(self, nodes: Sequence[Node], source: Source, state: State) -> tuple[Word, ...]:
        """The words of an array, or those that a loop goes through. A pattern of files (`configs/*.yaml`) stands for
        one of them, which is not known."""
        found: list[Word] = []
        for row in unbroken(nodes, source):
            is_open = any(_WILDCARD.search(_IN_QUOTES.sub("", source.of(node))) is not None for node in row)
            words = self.words(row, source, state)
            found += (_one_of_its_files(word) if is_open and _is_pattern(word) else word for word in words)
        return tuple(found[:MOST_WORDS])

    def _split(self, row: Sequence[Node], source: Source, state: State) -> Iterator[Word]:
        fields = self._row(row, source, state, False)
        whole = source.where(source.span(row[0])[0], source.span(row[-1])[1])
        for field in fields:
            parts = split(field.pieces)
            for part in parts:
                kept = tuple(piece for piece in part if piece.text or piece.unknown) or part[:1]
                at = field.at or (whole if len(fields) == len(parts) == 1 else None) or _place(kept) or whole
                for braced in _brace_expanded(kept):
                    yield Word(braced, at)

    def _fields(self, node: Node, source: Source, state: State, in_quotes: bool) -> list[Field]:
        kind = node.type
        if kind in ("concatenation", "command_name", "variable_assignment_value"):
            return self._row(node.children, source, state, in_quotes)
        if kind == "string":
            return self._quoted(node, source, state)
        if kind in ("simple_expansion", "expansion"):
            return self._parameter(node, source, state, in_quotes)
        return [Field(self._piece(node, source, state, in_quotes))]

    def _row(self, nodes: Sequence[Node], source: Source, state: State, in_quotes: bool) -> list[Field]:
        """The fields of adjacent parts. The last field of a part and the first one of the next are joined."""
        found: list[Field] = []
        is_open = False
        for node, name in _named(nodes, source):
            fields = self._named_fields(node, name, source, state, in_quotes)
            if is_open and found and fields:
                found[-1] = Field(joined((found[-1].pieces, fields[0].pieces)))
                fields = fields[1:]
            found += fields
            is_open = True
            if len(found) > MOST_WORDS:
                break
        return found

    def _named_fields(self, node: Node, name: str, source: Source, state: State, in_quotes: bool) -> list[Field]:
        """The fields of a part. `name`: of the variable that it begins with, behind a dollar that is a part before."""
        if not name:
            return self._fields(node, source, state, in_quotes)
        start, end = source.span(node)
        rest = _unescaped(source, start + len(name), end)
        return [Field(joined((_unquoted(self.variable(name, state)), rest)))]

    def _piece(self, node: Node, source: Source, state: State, in_quotes: bool) -> Text:
        kind = node.type
        start, end = source.span(node)
        if kind == "raw_string":
            return _kept(source.piece(start + 1, end - 1), source, start + 1)
        if kind == "ansi_c_string":
            body = source.text[start + 2 : end - 1]
            return literal(re.sub(r"\\(.)", lambda one: _ANSI.get(one[1], one[0]), body), None, True)
        if kind == "translated_string":
            return joined(
                field.pieces for child in node.named_children for field in self._fields(child, source, state, True)
            )
        if kind == "command_substitution":
            if source.text[start : start + 3] == "$((" and source.text[end - 2 : end] == "))":
                return self.arithmetic(node, source, state)
            found = self._substitute(node, source, state)
            return quoted(found) if in_quotes else _unquoted(found)
        if kind == "arithmetic_expansion":
            return self.arithmetic(node, source, state)
        if kind in ("process_substitution", "ERROR"):
            return unknown("${...}", "it cannot be read")
        return _unescaped(source, start, end)

    def _quoted(self, node: Node, source: Source, state: State) -> list[Field]:
        """A string in double quotes; `"${A[@]}"` gives a field for each word."""
        start, end = source.span(node)
        last = end - 1 if source.text[end - 1 : end] == '"' else end
        first = start + source.text[start:end].find('"') + 1
        fields = [Field((Piece("", source.where(first, first), quoted=True),))]
        arrays = 0
        for part in self._region(node, source, state, first, last, True):
            if isinstance(part, list):
                arrays += 1
                if not part:
                    continue
                if len(fields) == 1 and not shown(fields[0].pieces):
                    fields[-1:] = part
                else:
                    fields[-1] = Field(joined((fields[-1].pieces, part[0].pieces)))
                    fields += part[1:]
            elif part:
                fields[-1] = Field(joined((fields[-1].pieces, part)))
        if arrays and len(fields) == 1 and not shown(fields[0].pieces) and not why_unknown(fields[0].pieces):
            return []  # "${A[@]}" of an empty array gives no word
        return fields

    def _region(
        self, node: Node, source: Source, state: State, start: int, end: int, in_quotes: bool
    ) -> Iterator[Text | list[Field]]:
        """The text [start, end) of a node: the values of its expansions, and the text between them unchanged."""
        position = start
        for child in _with_gaps_open(node, source):
            first, last = source.span(child)
            if first < position or last > end or child.type not in _EXPANSIONS:
                continue
            first += _gap_before(source.text[first:last])
            yield _between(source, position, first, in_quotes)
            if child.type in ("simple_expansion", "expansion"):
                fields = self._parameter(child, source, state, in_quotes)
                yield fields if len(fields) != 1 or fields[0].at else fields[0].pieces
            else:
                pieces = joined(field.pieces for field in self._fields(child, source, state, in_quotes))
                yield quoted(pieces) if in_quotes else pieces
            position = last
        yield _between(source, position, end, in_quotes)

    def heredoc(self, node: Node, source: Source, state: State, is_raw: bool) -> Text:
        """The text of a here-document. `is_raw`: its word is quoted, nothing in it expands."""
        start, end = source.span(node)
        if is_raw:
            return source.piece(start, end)
        parts = self._region(node, source, state, start, end, True)
        return joined(part if isinstance(part, tuple) else joined(one.pieces for one in part) for part in parts)

    def _parameter(self, node: Node, source: Source, state: State, in_quotes: bool) -> list[Field]:
        mark = quoted if in_quotes else _unquoted
        raw = source.of(node)
        raw = raw[_gap_before(raw) :]
        if node.type == "simple_expansion":
            return self._plain(raw[1:], raw, state, in_quotes)
        match = _PARAMETER.match(raw)
        if match is None:
            return [Field(unknown(raw[:80], "the expansion cannot be read"))]
        prefix, name, index = match[1], match[2], (match[3] or "")[1:-1]
        if prefix == "#" or (not prefix and name == "#" and len(raw) == 4):
            return [Field(self._length(name, index, state))]
        if prefix == "!" and index in ("@", "*"):
            return [Field(literal(key, None, True)) for key in _keys(name, state)]
        if prefix == "!":
            target = known(self.variable(name, state))
            if target is None:
                return [Field(unknown(raw[:80], why_unknown(self.variable(name, state))))]
            name = target
        rest = raw[match.end() : -1]
        if index:
            index = shown(self._dollars(index, state))
        if not rest:
            return self._plain(f"{name}[{index}]" if index else name, raw, state, in_quotes)
        words = self._words_of(name, index, state)
        if index in ("@", "*") or name in ("@", "*"):
            fields = [
                Field(mark(self._operated(node, source, state, word.pieces, rest)), word.at) for word in words or ()
            ]
            if words or (rest[:2] not in (":-", ":+", "+") and rest[:1] != "-"):
                if (words and rest[:1] in "+:" and rest[:2] in (":+", "+")) or rest[:1] == "+":
                    return self._alternative(node, source, state, rest, in_quotes)
                return fields
        value = words[0].pieces if words else (self._unset(name) if words is None else ())
        if rest.lstrip(":")[:1] == "+" and value and not (value[0].is_unset):
            return self._alternative(node, source, state, rest, in_quotes)
        return [Field(mark(self._operated(node, source, state, value, rest, name)))]

    def _alternative(self, node: Node, source: Source, state: State, rest: str, in_quotes: bool) -> list[Field]:
        """The words of `${V:+words}` if V is set. Often `${ARGS[@]+"${ARGS[@]}"}`, which gives all words of the
        array."""
        end = source.span(node)[1] - 1
        start = end - len(rest) + (2 if rest[0] == ":" else 1)
        found: list[Field] = []
        pending: list[Text] = []
        for part in self._region(node, source, state, start, end, in_quotes):
            if isinstance(part, list):
                found += part
            else:
                pending.append(part)
        if found and not any(shown(text).strip() for text in pending):
            return found
        nested = [child for child in node.children if child.type == "string" and source.span(child)[0] >= start]
        if len(nested) == 1 and source.span(nested[0]) == (start, end):
            return self._quoted(nested[0], source, state)
        text = joined(pending)
        return [Field(quoted(text) if in_quotes else _unquoted(text))]

    def _operated(self, node: Node, source: Source, state: State, value: Text, rest: str, name: str = "") -> Text:
        """The value after `:-x`, `%pattern`, `/a/b`, `:0:3` and the like."""
        end = source.span(node)[1] - 1
        offset = end - len(rest)

        def operand(start: int, stop: int) -> Text:
            parts = self._region(node, source, state, offset + start, offset + stop, False)
            return joined(part if isinstance(part, tuple) else joined(one.pieces for one in part) for part in parts)

        found = operated(value, rest, operand)
        if name and rest.lstrip(":")[:1] == "=" and (not value or value[0].is_unset):
            state.set(name, found)
        return found

    def _plain(self, name: str, raw: str, state: State, in_quotes: bool) -> list[Field]:
        """`$V`, `$1`, `$@`, `${A[@]}`, `${A[1]}`."""
        base, _, index = name.partition("[")
        index = index[:-1]
        if base in ("@", "*") or index in ("@", "*"):
            words = self._words_of(base, index, state)
            if words is None and base in ("@", "*"):
                return []
            if words is None:
                return [Field(self._unset(base))]
            if in_quotes and "*" in (base, index):
                return [
                    Field(
                        joined(
                            part
                            for i, one in enumerate(words)
                            for part in (literal(self._separator(state) if i else ""), quoted(one.pieces))
                        )
                    )
                ]
            mark = quoted if in_quotes else _unquoted
            return [Field(mark(one.pieces) or (Piece("", None, quoted=in_quotes),), one.at) for one in words]
        words = self._words_of(base, index, state)
        value = (words[0].pieces if words else ()) if words is not None else self._unset(base if not index else name)
        return [Field(quoted(value) or (Piece("", None, quoted=True),) if in_quotes else _unquoted(value))]

    def _separator(self, state: State) -> str:
        """What stands between the words of `"${A[*]}"`: the first character of IFS."""
        separators = known(self.variable("IFS", state)) if "IFS" in state.variables else None
        return " " if separators is None else separators[:1]

    def _words_of(self, name: str, index: str, state: State) -> tuple[Word, ...] | None:
        """The words of a variable, an array's item or the arguments; None if it is not set."""
        if name in ("@", "*"):
            return state.arguments[1:]
        if name.isdigit():
            number = int(name) if len(name) < 4 else len(state.arguments)
            return (state.arguments[number],) if number < len(state.arguments) else None
        found = state.variables.get(name)
        if index and index not in ("@", "*"):
            if f"{name}[{index}]" in state.variables:
                return state.variables[f"{name}[{index}]"].words
            if name == "BASH_SOURCE":
                return (Word(literal(state.script)),)
            return self._item(found, index, state) if found else None
        if found is not None:
            return found.words
        special = self._special(name, state)
        return None if special is None else (Word(special),)

    def _item(self, found: Variable, index: str, state: State) -> tuple[Word, ...] | None:
        try:
            number = compute(index, lambda name: self._number(name, state))
        except CannotCompute:
            return None
        return (found.words[number],) if -len(found.words) <= number < len(found.words) else None

    def _special(self, name: str, state: State) -> Text | None:
        if name in self._defaults:
            return self._defaults[name]
        if name == "PWD":
            return literal(state.folder)
        if name == "HOME":
            return literal("~")
        if name == "BASH_SOURCE":
            return literal(state.script)
        if name == "#":
            count = str(len(state.arguments) - 1)
            return (
                unknown("${#}", "how many arguments is not known", "${#}" not in self.given)
                if state.takes_more
                else literal(count)
            )
        if name == "?":
            return literal("0")
        if name in _SET_BY_THE_SYSTEM or name in ("$", "!", "-", "_"):
            return unknown(f"${{{name}}}", f"`{name}` is the machine's")
        return None

    def variable(self, name: str, state: State) -> Text:
        """The value of a variable; if the script never sets it, an unknown with that reason."""
        words = self._words_of(name, "", state)
        return (words[0].pieces if words else ()) if words is not None else self._unset(name)

    def is_set(self, name: str, state: State) -> bool:
        """Whether the script, its scheduler or the shell sets a variable."""
        return self._words_of(name, "", state) is not None

    def _unset(self, name: str) -> Text:
        what = f"argument ${name} of the script" if name.isdigit() else f"nobody sets `{name}`"
        return unknown(f"${{{name}}}", what, f"${{{name}}}" not in self.given)

    def _length(self, name: str, index: str, state: State) -> Text:
        if name == "#" and not index:
            return self._special("#", state) or ()
        words = self._words_of(name, index, state)
        if index in ("@", "*") or name in ("@", "*"):
            reasons = [one.unknown for one in words or () if one.unknown and known_or_unset(one.pieces) is None]
            return unknown(f"${{#{name}[@]}}", reasons[0]) if reasons else literal(str(len(words or ())))
        value = words[0].known if words else ""
        return unknown(f"${{#{name}}}", f"`{name}` is not known") if value is None else literal(str(len(value)))

    def _dollars(self, text: str, state: State) -> Text:
        """A text with each `$NAME` in it expanded. For places where the grammar has no separate nodes for them."""
        found: list[Text] = []
        position = 0
        for match in _DOLLAR.finditer(text):
            found += [literal(text[position : match.start()]), self.variable(match[1] or match[2], state)]
            position = match.end()
        return joined((*found, literal(text[position:])))

    def arithmetic(self, node: Node, source: Source, state: State) -> Text:
        """The value of `$(( ... ))`, or of the inside of `(( ... ))`."""
        start, end = source.span(node)
        raw = source.text[start:end]
        opened = 3 if raw.startswith("$((") else 2 if raw[:2] in ("((", "$[") else 0
        closed = 2 if raw.endswith("))") else 1 if raw.endswith("]") else 0
        parts: list[Text] = []
        position = start + opened
        for child in _expansions_below(node):
            first, last = source.span(child)
            if first < position:
                continue
            parts += [literal(source.text[position:first])]
            parts += [field.pieces for field in self._fields(child, source, state, True)]
            position = last
        parts.append(literal(source.text[position : max(position, end - closed)]))
        return self.computed(joined(parts), state)

    def computed(self, text: Text, state: State) -> Text:
        """The value of an arithmetic expression, or an unknown with the reason."""
        reasons: list[Text] = []

        def value_of(name: str) -> int:
            return self._number(name, state, reasons)

        if why_unknown(text):
            return unknown("${...}", why_unknown(text), all(one.is_unset for one in text if one.unknown))
        try:
            return literal(str(compute(shown(text).replace('"', ""), value_of)))
        except CannotCompute:
            return unknown(
                "${...}", why_unknown(reasons[0]) if reasons else f"`{shown(text).strip()[:60]}` is no number"
            )

    def _number(self, name: str, state: State, reasons: list[Text] | None = None) -> int:
        """A variable in arithmetic: an empty one is 0."""
        text = self.variable(name, state)
        value = known(text)
        if value is None:
            if reasons is not None:
                reasons.append(text)
            raise CannotCompute(name)
        try:
            return int(value.strip() or "0", 8 if value.strip()[:1] == "0" and len(value.strip()) > 1 else 10)
        except ValueError:
            raise CannotCompute(name) from None


_EXPANSIONS = frozenset(
    (
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "string",
        "raw_string",
        "concatenation",
        "ansi_c_string",
    )
)


def _keys(name: str, state: State) -> list[str]:
    """The words of `${!A[@]}`: the numbers of an array's words, and the keys that were set one by one."""
    array = state.variables.get(name)
    numbers = map(str, range(len(array.words))) if array is not None else ()
    keys = (one[len(name) + 1 : -1] for one in state.variables if one.startswith(f"{name}["))
    return list(dict.fromkeys((*numbers, *keys)))


def _expansions_below(node: Node) -> Iterator[Node]:
    """The outermost expansions below a node, in order."""
    pending = list(reversed(node.children))
    while pending:
        child = pending.pop()
        if child.type in ("simple_expansion", "expansion", "command_substitution", "string"):
            yield child
        elif child.type != "arithmetic_expansion" or child is not node:
            pending += reversed(child.children)


def unbroken(nodes: Iterable[Node], source: Source) -> Iterator[list[Node]]:
    """The nodes of each word. The grammar (0.25.1) makes two nodes of `$A\\_b`, which has no blank."""
    row: list[Node] = []
    for node in nodes:
        if row and source.span(row[-1])[1] != source.span(node)[0]:
            yield row
            row = []
        row.append(node)
    if row:
        yield row


def _named(nodes: Iterable[Node], source: Source) -> Iterator[tuple[Node, str]]:
    """The parts of a word, those of concatenations too, and the name of the variable that each begins with: of
    `[0]*$N+[1]` the grammar (0.25.1) makes `[0]*`, a dollar, and `N+[1]`."""
    parts = [part for node in nodes for part in (node.children if node.type == "concatenation" else (node,))]
    for index, part in enumerate(parts):
        before = parts[index - 1] if index else None
        name = _NAME.match(source.of(part)) if before is not None and before.type == "$" else None
        follows = parts[index + 1] if index + 1 < len(parts) else None
        if part.type == "$" and follows is not None and _NAME.match(source.of(follows)):
            continue
        yield part, name[0] if name else ""


def _unquoted(text: Text) -> Text:
    return tuple(piece._replace(quoted=False) if piece.quoted else piece for piece in text)


def _kept(text: Text, source: Source, start: int) -> Text:
    return quoted(text) or (Piece("", source.where(start, start), quoted=True),)


def _with_gaps_open(node: Node, source: Source) -> Iterator[Node]:
    """The children of a node. For `${V:+--flag "$V"}` the grammar has one concatenation that includes the space between
    its parts; its parts are yielded separately."""
    for child in node.children:
        spans = [source.span(part) for part in child.children] if child.type == "concatenation" else []
        has_gap = any(one[1] < other[0] for one, other in pairwise(spans))
        yield from child.children if has_gap else (child,)


def _gap_before(expansion: str) -> int:
    """How much of a node stands before its `$`: after a line that `\\` continues in quotes, the grammar includes it."""
    return max(0, expansion.find("$")) if expansion[:1] in ("\\", " ", "\t", "\n") else 0


def _between(source: Source, start: int, end: int, in_quotes: bool) -> Text:
    """The text between two expansions, with escapes removed."""
    if end <= start:
        return ()
    return quoted(_escapes_removed(source, start, end, _ESCAPED_IN_QUOTES if in_quotes else _ESCAPED))


def _unescaped(source: Source, start: int, end: int) -> Text:
    found = quoted(_escapes_removed(source, start, end, _ESCAPED))
    if found and found[0].text[:1] == "~" and found[0].at is not None:
        return found  # a home folder stays `~`
    return found


def _escapes_removed(source: Source, start: int, end: int, escaped: re.Pattern[str]) -> Text:
    text = source.text[start:end]
    if "\\" not in text:
        return source.piece(start, end)
    parts: list[Text] = []
    position = 0
    for match in escaped.finditer(text):
        parts.append(source.piece(start + position, start + match.start()))
        if match[1] != "\n":
            parts.append(literal(match[1]))
        position = match.end()
    return joined((*parts, source.piece(start + position, end)))


def _place(text: Text) -> Where | None:
    """The place of adjacent pieces of one file; None if they are not from one file."""
    places = [piece.at for piece in text if piece.at is not None]
    if not places or any(one.path != places[0].path for one in places):
        return None
    return Where(places[0].path, places[0].start, max(one.end for one in places))


def _is_pattern(word: Word) -> bool:
    """Whether the shell looks for files that a word without quotes matches."""
    text = word.known
    return text is not None and _WILDCARD.search(text) is not None and _FILES.fullmatch(text) is not None


def _one_of_its_files(word: Word) -> Word:
    return Word(unknown(word.text, "it is one of the files that match"), word.at)


def _brace_expanded(text: Text) -> Iterator[Text]:
    """`{a,b}.yaml` as two words. Braces in quotes, and those of JSON, are kept."""
    word = known(text)
    match = _BRACES.search(word) if word is not None and len(text) == 1 and "{" in word and "$" not in word else None
    if word is None or match is None or '"' in word or _was_quoted(text):
        yield text
        return
    if match[1] is not None:
        items = match[1].split(",")
    else:
        first, last = int(match[2]), int(match[3])
        items = [
            str(number) for number in range(first, last + (1 if last >= first else -1), 1 if last >= first else -1)
        ]
    for item in items[:64]:
        yield literal(word[: match.start()] + item + word[match.end() :])


def _was_quoted(text: Text) -> bool:
    return text[0].at is None
