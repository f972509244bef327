"""Parses YAML to located values: a builder without recursion over PyYAML's event stream.

`yaml.compose` and `yaml.load` recurse in C and end the process on deep input; the event stream does not. The
builder stops at `MAX_DEPTH`, `MAX_NODES` and `MAX_ALIASED`. Aliases share their anchor's value; cycles are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from memlint.source.document import Path, Problem
from memlint.source.layout import Entry
from memlint.source.lines import Lines
from memlint.source.scalars import RESOLVERS, Scalar, ScalarProblem
from memlint.source.tags import RefusedDocument, tagged
from memlint.source.tree import MAX_DEPTH, MAX_NODES, MAX_PROBLEMS, TEMPLATE, TOO_DEEP, TOO_MANY_NODES, Tree, failed

MAX_ALIASED = 10_000  # nodes that aliases add to any walk over the value
MAX_DOCUMENTS = 100

_NO_KEY = object()
_MERGE = object()
_UNFINISHED = object()

Parser: Any
try:
    from yaml._yaml import CParser

    Parser = CParser
except ImportError:  # PyYAML built without libyaml: 15 times slower, the same events
    Parser = yaml.SafeLoader


def trees(text: str, dialect: str, lines: Lines) -> Iterator[Tree]:
    """The documents of a YAML text, up to the first fatal problem."""
    builder: _TreeBuilder | None = None
    try:
        get = Parser(text).get_event
        for number in range(MAX_DOCUMENTS + 1):
            event = get()
            while event.__class__ is StreamStartEvent:
                event = get()
            if event is None or event.__class__ is StreamEndEvent:
                return
            if number == MAX_DOCUMENTS:
                raise RefusedDocument(
                    "too-many-documents", f"more than {MAX_DOCUMENTS} documents", event.start_mark.index
                )
            builder = _TreeBuilder(get, text, RESOLVERS[dialect], dialect, lines)
            yield builder.document()
    except yaml.YAMLError as error:
        from memlint.source.messages import syntax_problem  # late: only needed for invalid YAML

        problem = syntax_problem(error, text, lines)
    except RefusedDocument as refused:
        problem = refused.problem(lines)
    yield failed((*builder.problems, problem) if builder else (problem,))


class _Collection:
    """A mapping or a sequence that is being filled.

    `entries`: where its values are (`layout.Entry`). `nodes_before`: how many nodes the document had before it. `key`
    and its offsets: the key whose value comes next. `merges`: the values of its keys `<<`.
    """

    def __init__(self, event: Any, start: int, nodes_before: int) -> None:
        is_mapping = event.__class__ is MappingStartEvent
        self.container: Any = {} if is_mapping else []
        self.entries: Any = {} if is_mapping else []
        self.anchor: str | None = event.anchor
        self.is_flow: bool = event.flow_style
        self.start = self.last_end = start
        self.nodes_before = nodes_before
        self.key: Any = _NO_KEY
        self.key_start = self.key_end = 0
        self.merges: list[tuple[Any, Any, int]] = []

    def expects_key(self) -> bool:
        return self.key is _NO_KEY and self.container.__class__ is dict

    def next_place(self) -> Any:
        """The key or the index of the value that comes next."""
        return self.key if self.container.__class__ is dict else len(self.container)


class _TreeBuilder:
    """Builds the values of one document and their offsets from the parser's events, without recursion."""

    def __init__(
        self, get: Callable[[], Any], text: str, resolve: Callable[[str], Scalar], dialect: str, lines: Lines
    ) -> None:
        self.get = get
        self.text = text
        self.resolve = resolve
        self.dialect = dialect
        self.lines = lines
        self.problems: list[Problem] = []
        self.aliases: list[Path] = []
        self.anchors: dict[str, Any] = {}  # name -> (value, entries below it, number of nodes), or _UNFINISHED
        self.nodes = 0
        self.aliased = 0
        self.must_reload = False
        # The open collections, the innermost last. The first is not in the text: its one item is the document's value.
        self.stack = [_Collection(SequenceStartEvent(None, None, True), 0, 0)]

    def document(self) -> Tree:
        """The document up to its end event. Raises `RefusedDocument`."""
        root = self.stack[0]
        while (event := self.get()).__class__ is not DocumentEndEvent:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                raise RefusedDocument("too-many-nodes", TOO_MANY_NODES, event.start_mark.index)
            kind = event.__class__
            if kind is ScalarEvent:
                self.scalar(event)
            elif kind is AliasEvent:
                self.alias(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self.open_collection(event)
            else:
                self.close_collection(event)
        return Tree(root.container[0], root.entries[0], tuple(self.problems), tuple(self.aliases), self.must_reload)

    def scalar(self, event: Any) -> None:
        start, end, value = event.start_mark.index, event.end_mark.index, event.value
        is_plain = event.tag is None and event.implicit[0]
        if event.tag is not None:
            value = self.tagged(event, start, end)
        elif is_plain:
            try:
                value = self.resolve(value)
            except ScalarProblem as problem:
                value = self.unreadable(problem, value, start, end)
        if event.anchor is not None:
            start = min(self.anchor(event.anchor, start), end)
            self.anchors[event.anchor] = (value, None, 1)
        self.put(value, start, end, is_plain, None)

    def open_collection(self, event: Any) -> None:
        start = event.start_mark.index
        if self.stack[-1].expects_key():
            self.refuse_key(start)
        if len(self.stack) > MAX_DEPTH:
            raise RefusedDocument("too-deep", TOO_DEEP, start)
        if event.anchor is not None:
            start = self.anchor(event.anchor, start)
        if event.tag is not None:
            self.collection_tag(event, start)
        self.stack.append(_Collection(event, start, self.nodes + self.aliased))

    def close_collection(self, event: Any) -> None:
        closed = self.stack.pop()
        if closed.merges:
            self.merge(closed)
        value, children, start = closed.container, closed.entries, closed.start
        if closed.anchor is not None:
            self.anchors[closed.anchor] = (value, children, self.nodes + self.aliased - closed.nodes_before + 1)
        # A block's end mark is at the next token.
        end = event.end_mark.index if closed.is_flow else max(closed.last_end, start)
        self.put(value, start, end, False, children)

    def alias(self, event: Any) -> None:
        """Puts the value of an anchor once more. Raises `RefusedDocument`."""
        name, start, end = event.anchor, event.start_mark.index, event.end_mark.index
        target = self.anchors.get(name)
        if target is None:
            raise RefusedDocument(
                "undefined-alias", f"*{name} refers to an anchor that is not defined above it", start, end
            )
        if target is _UNFINISHED:
            raise RefusedDocument("alias-cycle", f"*{name} refers to a value that contains it", start, end)
        value, children, nodes = target
        self.aliased += nodes
        if self.aliased > MAX_ALIASED:
            raise RefusedDocument("alias-expansion", f"aliases expand to more than {MAX_ALIASED:,} values", start, end)
        self.must_reload = True
        path = [collection.next_place() for collection in self.stack[1:]]
        if _NO_KEY not in path and _MERGE not in path:
            self.aliases.append(tuple(path))
        self.put(value, start, end, False, children)

    def put(self, value: Any, start: int, end: int, is_plain: bool, children: Any) -> None:
        """Puts a value into the innermost collection: as an item, a key, a merge or the value of a key."""
        into = self.stack[-1]
        into.last_end = end
        key, into.key = into.key, _NO_KEY
        if into.container.__class__ is list:
            into.container.append(value)
            into.entries.append((-1, -1, start, end, is_plain, children))
        elif key is _NO_KEY:
            if value.__class__ is dict or value.__class__ is list:
                self.refuse_key(start)
            into.key, into.key_start, into.key_end = value, start, end
        elif key is _MERGE:
            into.merges.append((value, children, start))
        else:
            if key in into.entries:
                self.duplicate(key, into.entries[key], into.key_start, into.key_end)
            into.container[key] = value
            into.entries[key] = (into.key_start, into.key_end, start, end, is_plain, children)

    def problem(self, code: str, message: str, start: int, end: int, severity: str = "error") -> None:
        self.report(Problem(code, message, self.lines.span(start, end), severity=severity))

    def report(self, problem: Problem) -> None:
        self.must_reload = True
        if len(self.problems) == MAX_PROBLEMS:
            raise RefusedDocument("too-many-problems", f"more than {MAX_PROBLEMS} problems", problem.span.start)
        self.problems.append(problem)

    def unreadable(self, problem: ScalarProblem, raw: str, start: int, end: int) -> Any:
        """The value of a plain scalar that has none in this dialect: the merge key, or text with a problem."""
        self.must_reload = True
        if problem.code == "special-key" and self.stack[-1].expects_key():
            return _MERGE if raw == "<<" else raw
        self.problem(problem.code, str(problem), start, end)
        return raw

    def tagged(self, event: Any, start: int, end: int) -> Any:
        """The value of a scalar with an explicit tag."""
        self.must_reload = True
        value, problem = tagged(event.tag, event.value, event.implicit[0], self.resolve)
        if problem:
            self.problem(problem.code, str(problem), start, end)
        return value

    def collection_tag(self, event: Any, start: int) -> None:
        """Reports a tag that does not fit the collection that carries it."""
        self.must_reload = True
        expected = "map" if event.__class__ is MappingStartEvent else "seq"
        if event.tag not in ("!", f"tag:yaml.org,2002:{expected}"):
            problem = tagged(event.tag, "", False, self.resolve)[1] or ScalarProblem(
                "custom-tag", f"the tag {event.tag} does not fit this collection; remove it"
            )
            self.problem(problem.code, str(problem), start, start + 1)

    def anchor(self, name: str, start: int) -> int:
        """Starts the anchor `name`. Returns the offset of the value after it."""
        if name in self.anchors:  # refused by PyYAML's composer as well
            raise RefusedDocument("duplicate-anchor", f"the anchor &{name} is defined twice; rename one of them", start)
        self.must_reload = True
        self.anchors[name] = _UNFINISHED
        if not self.text.startswith("&", start):
            return start
        start += len(name) + 1
        while start < len(self.text) and self.text[start] in " \t\r\n":
            start += 1
        return start

    def duplicate(self, key: Any, first: Entry, start: int, end: int) -> None:
        """Reports a key that the mapping has already. `first`: the entry of its first place."""
        refused = self.dialect == "omegaconf" and isinstance(key, str)  # OmegaConf looks at string keys only
        outcome = "OmegaConf refuses the file" if refused else "the last one counts"
        span = self.lines.span
        line = span(first[0], first[1]).line
        message = f"the key {key!r} is already set on line {line}; {outcome}"
        severity = "error" if refused else "warning"
        self.report(Problem("duplicate-key", message, span(start, end), span(first[0], first[1]), severity=severity))

    def merge(self, collection: _Collection) -> None:
        """Adds the mappings that `<<` names. Later merge keys win; in a list the first mapping wins."""
        container, entries = collection.container, collection.entries
        own_values, own_entries = dict(container), dict(entries)
        container.clear()
        entries.clear()
        for value, children, start in collection.merges:
            mappings = [(value, children)]
            if isinstance(value, list):
                mappings = [(item, entry[5]) for item, entry in zip(value, children)][::-1]
                self.report_order([item for item in value if isinstance(item, dict)], own_values, start)
            for mapping, mapping_entries in mappings:
                if not isinstance(mapping, dict):
                    raise RefusedDocument("merge", "<< takes a mapping, or a list of mappings", start)
                container.update(mapping)
                entries.update(mapping_entries)
        container.update(own_values)
        entries.update(own_entries)

    def report_order(self, mappings: list[dict[Any, Any]], own: dict[Any, Any], start: int) -> None:
        """Reports the key that `<<: [*a, *b]` takes from another mapping by the release of PyYAML (constructor.py,
        flatten_mapping): the first up to 6.0.3, as YAML 1.1 says, and since 6.0.4 the last."""
        first: dict[Any, Any] = {}
        pairs = ((key, value) for mapping in mappings for key, value in mapping.items() if key not in own)
        key = next((key for key, value in pairs if first.setdefault(key, value) != value), None)
        if key is not None:
            last = "PyYAML takes the first one up to 6.0.3, and since 6.0.4 the last one"
            self.problem("merge-order", f"several mappings of this list have {key!r}: {last}", start, start + 1, "info")

    def refuse_key(self, start: int) -> None:
        """Raises `RefusedDocument` for a collection that is a key: often a template that nobody rendered."""
        # In a value the inner brace would be the key, in a key the outer one.
        template = self.text.find("{{", max(0, start - 1), start + 2)
        if template >= 0:
            raise RefusedDocument("template", TEMPLATE, template, template + 2)
        raise RefusedDocument("unhashable-key", "a collection cannot be a key; quote it if it is meant as text", start)


def scalar_spans(text: str) -> tuple[list[tuple[int, int, bool]], int]:
    """Where each scalar starts and ends and whether it is a block scalar, and where reading stopped."""
    spans: list[tuple[int, int, bool]] = []
    try:
        get: Callable[[], Any] = Parser(text).get_event
        while (event := get()) is not None:
            kind = event.__class__
            if kind is ScalarEvent:
                spans.append((event.start_mark.index, event.end_mark.index, event.style in ("|", ">")))
    except yaml.YAMLError:
        return spans, spans[-1][1] if spans else 0
    return spans, len(text)
