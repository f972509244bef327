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
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
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
        self.anchors: dict[str, Any] = {}
        self.merges: dict[int, list[tuple[Any, Any, int]]] = {}
        self.aliased = 0
        self.must_reload = False
        # The collections around the current one: container, entries, key, key start, key end, start, flow style,
        # anchor, and how many nodes came before.
        self.stack: list[tuple[Any, Any, Any, int, int, int, bool, str | None, int]] = []

    def document(self) -> Tree:
        """The document up to its end event. Raises `RefusedDocument`.

        One loop with the state in local variables: a call per event would double its time. Each event either opens a
        collection, closes one, or gives a value, which is then put into the innermost collection.
        """
        get, resolve, stack, no_key, max_nodes = self.get, self.resolve, self.stack, _NO_KEY, MAX_NODES
        scalar, mapping, sequence = ScalarEvent, MappingStartEvent, SequenceStartEvent
        root: list[Any] = []
        root_entries: list[Entry] = []
        container: Any = root
        entries: Any = root_entries
        key: Any = no_key
        nodes = key_start = key_end = last_end = 0
        while True:
            event = get()
            event_type = event.__class__
            nodes += 1
            is_plain = False
            children: Any = None
            if event_type is scalar:
                start, end = event.start_mark.index, event.end_mark.index
                value = event.value
                if event.tag is not None:
                    value = self.tagged(event, start, end)
                elif event.implicit[0]:
                    is_plain = True
                    try:
                        value = resolve(value)
                    except ScalarProblem as problem:
                        is_key = key is no_key and container.__class__ is dict
                        value = self.unreadable(problem, value, start, end, is_key)
                if event.anchor is not None:
                    start = min(self.anchor(event.anchor, start), end)
                    self.anchors[event.anchor] = (value, None, 1)
            elif event_type is mapping or event_type is sequence:
                start = event.start_mark.index
                is_key = key is no_key and container.__class__ is dict
                if is_key or len(stack) >= MAX_DEPTH or nodes > max_nodes:
                    self.refuse_collection(start, is_key, nodes)
                if event.anchor is not None:
                    start = self.anchor(event.anchor, start)
                if event.tag is not None:
                    self.collection_tag(event, start)
                nodes_before = nodes + self.aliased
                flow, anchor = event.flow_style, event.anchor
                stack.append((container, entries, key, key_start, key_end, start, flow, anchor, nodes_before))
                container, entries = ({}, {}) if event_type is mapping else ([], [])
                key, last_end = no_key, start
                continue
            elif event_type is MappingEndEvent or event_type is SequenceEndEvent:
                if self.merges and id(container) in self.merges:
                    self.merge(container, entries)
                value, children = container, entries
                container, entries, key, key_start, key_end, start, flow, anchor, nodes_before = stack.pop()
                end = event.end_mark.index if flow else max(last_end, start)  # a block's end mark is the next token's
                if anchor is not None:
                    self.anchors[anchor] = (value, children, nodes + self.aliased - nodes_before + 1)
            elif event_type is AliasEvent:
                start, end = event.start_mark.index, event.end_mark.index
                value, children = self.alias(event.anchor, start, end, container, key)
            else:
                break
            # Put the value into the innermost collection: as an item, a key, a merge or the value of a key.
            last_end = end
            if container.__class__ is list:
                container.append(value)
                entries.append((-1, -1, start, end, is_plain, children))
            elif key is no_key:
                if value.__class__ is dict or value.__class__ is list:
                    self.refuse_collection(start, True, nodes)
                key, key_start, key_end = value, start, end
            elif key is _MERGE:
                self.merges.setdefault(id(container), []).append((value, children, start))
                key = no_key
            else:
                if key in entries:
                    self.duplicate(key, entries[key], key_start, key_end)
                container[key] = value
                entries[key] = (key_start, key_end, start, end, is_plain, children)
                key = no_key
            if nodes > max_nodes:
                self.refuse_collection(start, False, nodes)
        return Tree(root[0], root_entries[0], tuple(self.problems), tuple(self.aliases), self.must_reload)

    def problem(self, code: str, message: str, start: int, end: int, severity: str = "error") -> None:
        self.report(Problem(code, message, self.lines.span(start, end), severity=severity))

    def report(self, problem: Problem) -> None:
        self.must_reload = True
        if len(self.problems) == MAX_PROBLEMS:
            raise RefusedDocument("too-many-problems", f"more than {MAX_PROBLEMS} problems", problem.span.start)
        self.problems.append(problem)

    def unreadable(self, problem: ScalarProblem, raw: str, start: int, end: int, is_key: bool) -> Any:
        """The value of a plain scalar that has none in this dialect: the merge key, or text with a problem."""
        self.must_reload = True
        if problem.code == "special-key" and is_key:
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

    def alias(self, name: str, start: int, end: int, container: Any, key: Any) -> tuple[Any, Any]:
        """The value of an alias and the entries below it. Raises `RefusedDocument`."""
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
        keys = [frame[2] if frame[0].__class__ is dict else len(frame[0]) for frame in self.stack]
        keys.append(key if container.__class__ is dict else len(container))
        if _NO_KEY not in keys and _MERGE not in keys:
            self.aliases.append(tuple(keys[1:]))
        return value, children

    def duplicate(self, key: Any, first: Entry, start: int, end: int) -> None:
        """Reports a key that the mapping has already. `first`: the entry of its first place."""
        refused = self.dialect == "omegaconf" and isinstance(key, str)  # OmegaConf looks at string keys only
        outcome = "OmegaConf refuses the file" if refused else "the last one counts"
        span = self.lines.span
        line = span(first[0], first[1]).line
        message = f"the key {key!r} is already set on line {line}; {outcome}"
        severity = "error" if refused else "warning"
        self.report(Problem("duplicate-key", message, span(start, end), span(first[0], first[1]), severity=severity))

    def merge(self, container: dict[Any, Any], entries: dict[Any, Entry]) -> None:
        """Adds the mappings that `<<` names. Later merge keys win; in a list the first mapping wins."""
        own_values, own_entries = dict(container), dict(entries)
        container.clear()
        entries.clear()
        for value, children, start in self.merges.pop(id(container)):
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

    def refuse_collection(self, start: int, is_key: bool, nodes: int) -> None:
        """Raises `RefusedDocument` for a collection that is too deep, beyond the limit, or a key."""
        if nodes > MAX_NODES:
            raise RefusedDocument("too-many-nodes", TOO_MANY_NODES, start)
        if not is_key:
            raise RefusedDocument("too-deep", TOO_DEEP, start)
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
