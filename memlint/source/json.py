"""Parses JSON to located values, without recursion and with the limits of `yaml.py`.

A mistake with a clear meaning (comment, trailing comma, single quotes, Python's `True`, NaN) becomes a problem at its
place, and the value is still read. After any other mistake the file has no value.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in typeshed
from typing import Any

from memlint.source.document import Problem
from memlint.source.encoding import unprintable
from memlint.source.layout import Entry
from memlint.source.lines import Lines
from memlint.source.scalars import ScalarProblem, integer
from memlint.source.tags import RefusedDocument
from memlint.source.tree import MAX_DEPTH, MAX_NODES, MAX_PROBLEMS, TOO_DEEP, TOO_MANY_NODES, Tree, failed

_TOKEN = re.compile(
    r"[ \t\n\r]*(?:"
    r'"(?P<string>[^"\\\x00-\x1f]*)"'
    r"|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?![\w.+-])"
    r"|(?P<mark>[{}\[\],:])"
    r"|(?P<word>true|false|null)(?!\w)"
    r")"
)
_SPACE = re.compile(r"[ \t\n\r]*")
_COMMENT = re.compile(r"//[^\r\n]*|#[^\r\n]*|/\*.*?\*/", re.DOTALL)
_SINGLE_QUOTED = re.compile(r"'([^'\\\x00-\x1f]*)'")
# Placeholders that sed or envsubst replace: `CONFIG_BATCH_SIZE`, `${ZERO_STAGE}`.
_PLACEHOLDER = re.compile(r"(?!(?:TRUE|FALSE|NULL|NONE|NAN|INF|INFINITY)\b)[A-Z][A-Z0-9_]{2,}\b|\$\{\w+\}")
_PYTHON_WORD = re.compile(r"(-?(?:NaN|Infinity)|True|False|None)(?!\w)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {"true": True, "false": False, "null": None}
_PYTHON_WORDS: dict[str, Any] = {"True": True, "False": False, "None": None}

# What the next token may be.
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _COMMA, _END = range(7)
_EXPECTED = {
    _VALUE: "a value",
    _VALUE_OR_END: "a value or ']'",
    _KEY: "a key in double quotes",
    _KEY_OR_END: "a key in double quotes or '}'",
    _COLON: "':'",
    _COMMA: "','",
    _END: "the end of the file",
}


def tree(text: str, lines: Lines) -> Tree:
    """The value of a JSON text."""
    scanner = _Scanner(text, lines)
    try:
        return scanner.run()
    except RefusedDocument as refused:
        return failed((*scanner.problems, unprintable(text) or refused.problem(lines)))


class _Scanner:
    """Reads the tokens of one text. Containers around the current one are on a stack."""

    def __init__(self, text: str, lines: Lines) -> None:
        self.text = text
        self.lines = lines
        self.problems: list[Problem] = []
        self.stack: list[tuple[Any, Any, Any, int, int, int]] = []
        self.expected = _VALUE
        self.container: Any = []
        self.entries: Any = []
        self.key: Any = None
        self.key_start = self.key_end = 0
        self.last_end = 0
        self.comma = -1  # the offset of the comma before the next value

    def run(self) -> Tree:
        """Reads tokens to the end of the text."""
        text, match, position, nodes = self.text, _TOKEN.match, 0, 0
        root, root_entries = self.container, self.entries
        while True:
            token = match(text, position)
            if token is None:
                recovered = self.recover(_SPACE.match(text, position).end())  # type: ignore[union-attr]
                if recovered is None:
                    break
                start, position, kind, value = recovered
                if kind == "skip":
                    continue
            else:
                kind, position = token.lastgroup or "", token.end()
                value, start = token[kind], token.start(kind)
            if kind == "mark":
                nodes += value in "{}[]"  # a collection counts twice, as in YAML: it takes more memory
                self.mark(value, start)
            else:
                if kind == "string" and token is not None:
                    start -= 1
                elif kind != "recovered":
                    value = self.convert(kind, value, start)
                nodes += 1
                self.scalar(value, start, position)
            if nodes > MAX_NODES:
                raise RefusedDocument("too-many-nodes", TOO_MANY_NODES, start)
        return Tree(root[0], root_entries[0], tuple(self.problems), (), True)

    def scalar(self, value: Any, start: int, end: int) -> None:
        expected = self.expected
        if expected <= _VALUE_OR_END:
            self.put(value, start, end, None)
        elif expected <= _KEY_OR_END and isinstance(value, str):
            if value in self.entries:
                self.duplicate(value, self.entries[value], start, end)
            self.key, self.key_start, self.key_end = value, start, end
            self.expected = _COLON
        else:
            self.refuse(start, end)

    def put(self, value: Any, start: int, end: int, below: Any) -> None:
        if self.container.__class__ is list:
            self.container.append(value)
            self.entries.append((-1, -1, start, end, False, below))
        else:
            self.container[self.key] = value
            self.entries[self.key] = (self.key_start, self.key_end, start, end, False, below)
        self.last_end = end
        self.expected = _COMMA if self.stack else _END

    def mark(self, mark: str, start: int) -> None:
        expected = self.expected
        if mark == ":" and expected == _COLON:
            self.expected = _VALUE
        elif mark == "," and expected == _COMMA:
            self.comma = start
            self.expected = _KEY if self.container.__class__ is dict else _VALUE
        elif mark in "{[" and expected <= _VALUE_OR_END:
            self.open(mark, start)
        elif mark in "}]" and self.closes(mark, start):
            end = start + 1
            value, below = self.container, self.entries
            self.container, self.entries, self.key, self.key_start, self.key_end, start = self.stack.pop()
            self.put(value, start, end, below)
        else:
            self.refuse(start, start + 1)

    def open(self, mark: str, start: int) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise RefusedDocument("too-deep", TOO_DEEP, start)
        self.stack.append((self.container, self.entries, self.key, self.key_start, self.key_end, start))
        if mark == "{":
            self.container, self.entries, self.expected = {}, {}, _KEY_OR_END
        else:
            self.container, self.entries, self.expected = [], [], _VALUE_OR_END

    def closes(self, mark: str, start: int) -> bool:
        if not self.stack or (mark == "}") != (self.container.__class__ is dict):
            return False
        if self.expected in (_COMMA, _KEY_OR_END, _VALUE_OR_END):
            return True
        if self.expected == _KEY or (self.expected == _VALUE and mark == "]"):
            self.problem(
                "json-trailing-comma", "a trailing comma; JSON has none, remove it", self.comma, self.comma + 1
            )
            return True
        return False

    def convert(self, kind: str, raw: str, start: int) -> Any:
        if kind == "word":
            return _WORDS[raw]
        if not raw.lstrip("-").isdigit():
            return float(raw)
        try:
            return integer(raw, 10)
        except ScalarProblem as problem:
            self.problem(problem.code, str(problem), start, start + len(raw))
            return raw

    def escaped(self, start: int) -> tuple[int, int, str, Any]:
        """A string with escapes, or one that is not well formed."""
        try:
            value, end = scanstring(self.text, start + 1, True)
        except ValueError as error:
            raise self.bad_string(start, error) from None
        if _SURROGATE.search(value):
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self.problem("lone-surrogate", "half of a surrogate pair, which is no character; remove it", start, end)
        return start, end, "recovered", value

    def recover(self, start: int) -> tuple[int, int, str, Any] | None:
        """Reads a token that JSON does not allow but whose meaning is clear: (start, end, kind, value). None at the end
        of the text."""
        if start == len(self.text):
            if self.expected == _END:
                return None
            raise self.unfinished(start)
        if self.text[start] == '"':
            return self.escaped(start)
        if comment := _COMMENT.match(self.text, start):
            self.problem("json-comment", "a comment; JSON has none, remove it", start, comment.end())
            return start, comment.end(), "skip", None
        if quoted := _SINGLE_QUOTED.match(self.text, start):
            self.problem("json-single-quotes", "single quotes; JSON has double quotes only", start, quoted.end())
            return start, quoted.end(), "recovered", quoted[1]
        if word := _PYTHON_WORD.match(self.text, start):
            return start, word.end(), "recovered", self.python_word(word[1], start, word.end())
        raise self.unreadable(start)

    def python_word(self, word: str, start: int, end: int) -> Any:
        if word in _PYTHON_WORDS:
            written = {"True": "true", "False": "false", "None": "null"}[word]
            self.problem("json-literal", f"{word} is Python's spelling; JSON has {written}", start, end)
            return _PYTHON_WORDS[word]
        message = f"{word} is not JSON, though Python reads it; write a finite number"
        self.problem(
            "json-nan", message, start, end, severity="warning"
        )  # only a warning: transformers writes NaN, too
        return float(word)

    def unfinished(self, start: int) -> RefusedDocument:
        if not self.stack:
            return RefusedDocument("syntax", "the file is empty; JSON needs a value", start, start)
        opened = self.stack[-1][5]
        return RefusedDocument("syntax", f"this {self.text[opened]!r} is never closed", opened)

    def unreadable(self, start: int) -> RefusedDocument:
        first = self.text[start]
        if first in "+-.0123456789":
            return RefusedDocument("syntax", "not a JSON number; write it like 0.5, -1 or 1e-5", start)
        if self.expected == _VALUE and (word := _PLACEHOLDER.match(self.text, start)):
            message = f"{word[0]} is filled in by a script; what stands here then is not known"
            return RefusedDocument("template", message, start, word.end())
        if first.isalpha() or first in "_$'":
            return RefusedDocument(
                "syntax", f"expected {_EXPECTED[self.expected]}; JSON text stands in double quotes", start
            )
        return RefusedDocument("syntax", f"unexpected {first!r}; expected {_EXPECTED[self.expected]}", start)

    def bad_string(self, start: int, error: ValueError) -> RefusedDocument:
        at = min(getattr(error, "pos", start), len(self.text))
        character = self.text[at : at + 1]
        if at <= start or not character:
            return RefusedDocument("syntax", "this string is never closed", start)
        if character in "\r\n":
            return RefusedDocument("syntax", "this string is not closed on its line", start, at)
        if character < " ":
            return RefusedDocument("syntax", f"a raw U+{ord(character):04X} in a string; escape it", at)
        if character != "\\":  # of a `\u` without its four digits, the standard library tells the place of the u
            at -= 1
        return RefusedDocument("syntax", "an unknown escape; a backslash is written \\\\", at, at + 2)

    def refuse(self, start: int, end: int) -> None:
        if self.expected == _COMMA:
            raise RefusedDocument("syntax", "a ',' is missing before this", start, end)
        if self.expected == _END:
            raise RefusedDocument("syntax", "text after the end of the value; remove it", start, end)
        raise RefusedDocument("syntax", f"expected {_EXPECTED[self.expected]}", start, end)

    def duplicate(self, key: str, first: Entry, start: int, end: int) -> None:
        span = self.lines.span(first[0], first[1])
        message = (
            f"the key {key!r} is already set on line {span.line}; the last one counts, though DeepSpeed refuses its "
            "own files like that"
        )
        self.report(Problem("duplicate-key", message, self.lines.span(start, end), span, severity="warning"))

    def problem(self, code: str, message: str, start: int, end: int, severity: str = "error") -> None:
        self.report(Problem(code, message, self.lines.span(start, end), severity=severity))

    def report(self, problem: Problem) -> None:
        if len(self.problems) == MAX_PROBLEMS:
            raise RefusedDocument("too-many-problems", f"more than {MAX_PROBLEMS} problems", problem.span.start)
        self.problems.append(problem)
