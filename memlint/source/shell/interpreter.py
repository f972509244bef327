"""Follows a shell script without running anything, and collects the programs that it would start.

It follows variables, functions, branches, loops over known words, sourced files, here-documents and the text programs
of `filters.py`. If a condition is unknown, both branches are followed, in separate states (up to `MOST_WAYS`); beyond
that, the states are merged, and everything that differs between them is unknown. A branch that ends in `exit` is
dropped if the other one continues: it is assumed that the script gets what it needs. Loops, depth and text are all
bounded.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memlint._record import NamedTuple
from memlint.source.shell import builtins, counting, patterns
from memlint.source.shell.branches import bind_case, case_body, if_branches
from memlint.source.shell.conditions import Conditions, negated
from memlint.source.shell.expansion import Expander, WorkLimitReached, unbroken
from memlint.source.shell.invocation import Invocation, Surroundings
from memlint.source.shell.programs import NUMBER_OF_GPUS, counts_gpus, lists_gpus, printed
from memlint.source.shell.redirections import given_text, leaves_output, written_file
from memlint.source.shell.state import ShellFunction, State, Truth, Variable, distinct, merged, path_in
from memlint.source.shell.text import (
    Text,
    Where,
    Word,
    assumed,
    joined,
    known,
    known_or_unset,
    literal,
    shown,
    trimmed,
    unknown,
)
from memlint.source.shell.tree import Source
from memlint.source.shell.wrappers import Inner, inner
from memlint.source.suffixes import SHELL

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_STEPS = 6_000  # statements that are followed
MOST_WAYS = 6  # states that are followed separately
MOST_DEPTH = 40  # of nested statements, functions and scripts
MOST_STARTS = 3
MOST_ROUNDS = 16  # iterations of one loop that starts programs
MOST_QUIET_ROUNDS = 256  # of one that starts none: it makes a list of arguments
MOST_INVOCATIONS = 1_000
MOST_CALLS = 24  # of one other script: a sweep calls it for each point of its grid
MOST_OPEN = 2  # times that a script stands in itself: one that submits itself; a chain of jobs goes on as it began
MOST_WRAPPERS = 8  # around one program
# Jobs that run the text of a variable: script, variable. NeMo-RL's starts Ray on all nodes first (0.7.0 ray.sub).
_RUN_BY = {"ray.sub": "COMMAND"}
States = list[State]


class _Command(NamedTuple):
    """A simple command of expanded words.

    `own_variables`: those that are set only for it (`V=1 train`). `wrappers`: the words of the commands that start it
    (`srun`, `nohup`), outermost first. `is_outside`: it runs in a container or on another machine.
    """

    words: tuple[Word, ...]
    own_variables: Mapping[str, Text] = {}
    wrappers: tuple[tuple[Word, ...], ...] = ()
    is_outside: bool = False


class Interpreter:
    """Follows one script. `path`: its file (absolute), which findings point to."""

    def __init__(self, path: str, surroundings: Surroundings) -> None:
        self.path = path
        self.surroundings = surroundings
        self.invocations: list[Invocation] = []
        defaults = {name: literal(value) for name, value in surroundings.variables.items()}
        self.expander = Expander(self._printed, defaults)
        self.conditions = Conditions(self.expander, self._exists)
        self.asked_for_gpus = False  # whether the script counts the GPUs of the machine
        self._steps = 0
        self._depth = 0
        self._at = Where(path, 0, 0)  # the place of the current command in this file
        self._calls: Counter[str] = Counter()  # of each other script
        self._open: Counter[str] = Counter()  # the scripts that the current command stands in, this file included
        self._required: frozenset[str] = frozenset()
        self._around: tuple[tuple[Word, ...], ...] = ()  # the wrappers that start the current text of `bash -c`

    def follow(self, text: str, folder: str, arguments: Iterable[Word] = (), source: Source | None = None) -> None:
        """Follows the script from its start. `folder`: the working folder (absolute).

        If the script stops because a value is missing (`${V:?}`), it is followed again as if the value were given.
        """
        sources = (source or Source.of_file(self.path, text),)
        self.follow_all(sources, folder, arguments)

    def follow_all(self, sources: Iterable[Source], folder: str, arguments: Iterable[Word] = ()) -> None:
        """Like `follow`, for several texts that one shell reads in sequence; each is parsed separately."""
        sources, arguments = tuple(sources), tuple(arguments)
        for _ in range(MOST_STARTS):
            self.invocations, self._steps, self._depth = [], 0, 0
            self._calls.clear()
            self._open = Counter((self.path,))
            self.expander.start()
            try:
                states = [State((Word(literal(self.path)), *arguments), folder)]
                for source in sources:
                    states = [way for one in states for way in self._script(source, one)][:MOST_WAYS]
            except WorkLimitReached:
                break
            if self._required <= self.expander.given:
                break
            self.expander.given |= self._required

    def _script(self, source: Source, state: State) -> States:
        if source.tree is None:
            return [state]
        return self._statements(source.tree.children, source, [state])

    def _statements(self, nodes: Sequence[Node], source: Source, states: States) -> States:
        """Follows statements in sequence, each in every state that continues."""
        for node in nodes:
            if not node.is_named or node.type == "comment":
                continue
            going, over = [one for one in states if _continues(one)], [one for one in states if not _continues(one)]
            if not going:
                break
            ways = [way for one in going for way in self.statement(node, source, one)]
            states = self._merge_states(over + ways, node)
        return states

    def statement(self, node: Node, source: Source, state: State) -> States:
        """Follows one statement and returns the possible states after it. `state` must not be used afterwards."""
        self._steps += 1
        handler = _STATEMENTS.get(node.type)
        if handler is None or self._steps > MOST_STEPS or self._depth > MOST_DEPTH:
            return [state]
        before = self._at
        here = source.where(*source.span(node))
        if here is not None and here.path == self.path:
            self._at = here
        self._depth += 1
        try:
            return handler(self, node, source, state)
        finally:
            self._depth -= 1
            self._at = before

    def _merge_states(self, states: States, node: Node) -> States:
        """Joins equal states. If more than `MOST_WAYS` remain, merges them: differing values become unknown."""
        if len(states) == 1:
            return states
        alive = [one for one in states if not one.is_dead]
        self.expander.spend(sum(10 + 5 * len(one.variables) for one in alive))
        ways = distinct(alive)
        if len(ways) > MOST_WAYS:
            return [merged(ways, node.start_point[0] + 1)]
        return ways or states[:1]

    def _block(self, node: Node, source: Source, state: State) -> States:
        if source.of(node).startswith("(("):
            state.status = self.conditions.number(node, source, state)
            return [state]
        return self._statements(node.children, source, [state])

    def _subshell(self, node: Node, source: Source, state: State) -> States:
        """`( ... )`: its changes of variables do not last."""
        ended = self._statements(node.children, source, [state.copy()])
        state.output = ended[0].output
        state.status = ended[0].status
        return [state]

    def _test(self, node: Node, source: Source, state: State) -> States:
        state.status = self.conditions.test(node, source, state)
        return [state]

    def _negated(self, node: Node, source: Source, state: State) -> States:
        states = self._statements(node.children, source, [state])
        for one in states:
            one.status = negated(one.status)
        return states

    def _list(self, node: Node, source: Source, state: State) -> States:
        """`a && b`, `a || b`. A program is assumed to succeed."""
        left, *middle = node.children[:-1]
        right, is_or = node.children[-1], any(child.type == "||" for child in middle)
        found: States = []
        for one in self.statement(left, source, state):
            if not _continues(one):
                found.append(one)
                continue
            status = Truth(True) if one.status.is_command else one.status
            found += self._follow_condition(
                one, negated(status) if is_or else status, lambda way: self.statement(right, source, way), _same, node
            )
        return self._merge_states(found, node)

    def _follow_condition(
        self,
        state: State,
        truth: Truth,
        yes: Callable[[State], States],
        no: Callable[[State], States],
        node: Node,
    ) -> States:
        """Follows the branches of a condition: both if it is unknown. If it rests on an assumption, the other branch is
        followed only when the assumed one ends the script."""
        if truth.value is not None and not truth.assumed:
            return yes(state) if truth.value else no(state)
        if truth.value is not None:
            first, second = (yes, no) if truth.value else (no, yes)
            ended = first(state.copy())
            if any(not one.is_dead for one in ended):
                return ended
            self._required |= truth.assumed
            return second(state)
        other = state.copy()
        if truth.equals is not None:
            state.set(truth.equals[0], literal(truth.equals[1]))
        line = node.start_point[0] + 1
        state.conditions += (line,)
        other.conditions += (-line,)
        return yes(state) + no(other)

    def _if(self, node: Node, source: Source, state: State) -> States:
        branches = if_branches(node)

        def from_branch(index: int, state: State) -> States:
            if index == len(branches):
                return [state]
            condition, body = branches[index]
            found: States = []
            for one in self._statements(condition, source, [state]):
                if not _continues(one):
                    found.append(one)
                    continue
                truth = Truth(None) if one.status.is_command else one.status
                truth = Truth(True) if not condition else truth
                found += self._follow_condition(
                    one,
                    truth,
                    lambda way: self._statements(body, source, [way]),
                    lambda way: from_branch(index + 1, way),
                    node,
                )
            return found

        return self._merge_states(from_branch(0, state), node)

    def _case(self, node: Node, source: Source, state: State) -> States:
        value = self.expander.text(node.child_by_field_name("value"), source, state)
        items = [child for child in node.children if child.type == "case_item"]
        plain = known_or_unset(value)
        chosen = (
            None if plain is None else next((item for item in items if self._matches(item, plain, source, state)), None)
        )
        if plain is not None:
            ended = self._statements(case_body(chosen), source, [state.copy()]) if chosen is not None else [state]
            if not assumed(value) or any(not one.is_dead for one in ended):
                return self._merge_states(ended, node)
            self._required |= assumed(value)
        found: States = []
        for item in items:
            way = state.copy()
            way.conditions += (item.start_point[0] + 1,)
            bind_case(value, item, source, way)
            if item is not chosen or plain is None:
                found += self._statements(case_body(item), source, [way])
        return self._merge_states(found or [state], node)

    def _matches(self, item: Node, value: str, source: Source, state: State) -> bool:
        for pattern in item.children_by_field_name("value"):
            text = known(self.expander.text(pattern, source, state))
            try:
                if text is not None and patterns.matches(text, value):
                    return True
            except patterns.CannotMatch:
                continue
        return False

    def _for(self, node: Node, source: Source, state: State) -> States:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = node.children_by_field_name("value")
        if variable is None or body is None:
            return [state]
        name = source.of(variable)
        words = self.expander.listed(values, source, state) if values else state.arguments[1:]
        return self._rounds(name, words[:MOST_QUIET_ROUNDS], body, source, state)

    def _rounds(
        self, name: str, words: Iterable[Word], body: Node, source: Source, state: State, after: Word | None = None
    ) -> States:
        """Follows the body of a loop once for each word of its variable. `after`: what the variable is then, where that
        is not the last word."""
        states, started = [state], len(self.invocations)
        for index, word in enumerate(words):
            if index >= MOST_ROUNDS and len(self.invocations) > started:
                break
            for one in states:
                if not one.left:
                    one.variables[name] = Variable((word,))
            states = _without_left(self._statements(body.children, source, states), ("continue",))
        for one in states:
            if after is not None and not one.left:
                one.variables[name] = Variable((after,))
        return _without_left(states, ("break", "continue"))

    def _for_counting(self, node: Node, source: Source, state: State) -> States:
        """`for ((i=0; i<n; i++))`: as over the words that the counter takes. If they are not known, the body is
        followed once, with an unknown counter, and what it changes is not known."""
        body = node.child_by_field_name("body")
        if body is None:
            return [state]
        counter = counting.counter_of(node, source)
        values = counter and counting.values(counter, source, state, self.expander, MOST_QUIET_ROUNDS)
        before, started = state.copy(), len(self.invocations)
        if counter and values:
            *during, after = map(Word, values)
            found = self._rounds(counter.name, during, body, source, state, after)
            if len(during) <= MOST_ROUNDS or len(self.invocations) == started:
                return found
            del self.invocations[started:]
            state, before = before, before.copy()
        for name in counting.names_set(node, source):
            state.set(name, unknown(f"${{{name}}}", "it counts a loop"))
        ways = _without_left(self._statements(body.children, source, [state]), ("break", "continue"))
        return self._merge_states([merged([before, *ways], node.start_point[0] + 1)], node)

    def _while(self, node: Node, source: Source, state: State) -> States:
        """Follows the body of a loop once, unless its condition is false. A loop that consumes the script's arguments
        with `shift` is followed until none is left."""
        body = node.child_by_field_name("body")
        condition = node.children_by_field_name("condition")
        found: States = []
        for one in self._statements(condition, source, [state]):
            is_until = source.of(node).startswith("until")
            truth = negated(one.status) if is_until and not one.status.is_command else one.status
            if truth.value is False or body is None:
                found.append(one)
                continue
            before = one.copy()
            rounds = self._statements(body.children, source, [one])
            is_over = any(way.left == "break" for way in rounds)
            alive = [way for way in _without_left(rounds, ("break", "continue")) if not way.is_dead]
            certain = truth.value is True and not truth.assumed
            if certain and not is_over and len(alive) == 1 and len(alive[0].arguments) < len(before.arguments):
                found += self._while(node, source, alive[0])
                continue
            found.append(merged(alive if certain and alive else [before, *alive], node.start_point[0] + 1))
        return self._merge_states(found, node)

    def _function(self, node: Node, source: Source, state: State) -> States:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            state.functions[source.of(name)] = ShellFunction(body, source)
        return [state]

    def _pipeline(self, node: Node, source: Source, state: State) -> States:
        """`a | b`: each command reads the output of the one before it."""
        given: Text | None = state.input
        parts = [child for child in node.children if child.is_named]
        status = state.status
        for child in parts:
            one = state.copy()
            one.input = given
            one.output = ()
            ended = self._statements([child], source, [one])
            given, status = ended[0].output, ended[0].status
            for way in ended:
                state.files.update(way.files)
        state.print(given or ())
        state.status = status
        return [state]

    def _redirected(self, node: Node, source: Source, state: State) -> States:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        given = next(
            (given_text(self.expander, one, source, state) for one in redirects if one.type != "file_redirect"), None
        )
        target = written_file(self.expander, redirects, source, state)
        leaves = target is not None or leaves_output(redirects, source)
        outer, before = state.output, state.input
        if given is not None:
            state.input = given
        if leaves:
            state.output = ()
        states = self._statements([body], source, [state]) if body is not None else [state]
        rest = [child for one in redirects for child in one.named_children if child.type in _STATEMENTS]
        for one in states:
            if target is not None:
                path, adds = target
                text = one.output or ()
                one.files[path] = joined((one.files.get(path, ()), text)) if adds else text
            if leaves:
                one.output = outer
            one.input = before
        return self._statements(rest, source, states) if rest else states

    def _assignment(self, node: Node, source: Source, state: State) -> States:
        builtins.assign(self.expander, node, source, state)
        state.status = Truth(True)
        return [state]

    def _assignments(self, node: Node, source: Source, state: State) -> States:
        for child in node.named_children:
            builtins.assign(self.expander, child, source, state)
        return [state]

    def _declaration(self, node: Node, source: Source, state: State) -> States:
        builtins.declare(self.expander, node, source, state)
        state.status = Truth(True)
        return [state]

    def _unset(self, node: Node, source: Source, state: State) -> States:
        for word in self.expander.words(node.named_children, source, state):
            state.variables.pop(word.text, None)
        return [state]

    def _command(self, node: Node, source: Source, state: State) -> States:
        name = node.child_by_field_name("name")
        arguments = node.children_by_field_name("argument")
        assigned = [child for child in node.children if child.type == "variable_assignment"]
        strings = [child for child in node.children if child.type == "herestring_redirect"]
        if strings:
            state.input = given_text(self.expander, strings[0], source, state)
        rows = list(unbroken([*assigned, *([] if name is None else [name]), *arguments], source))
        values = [row for row in rows if row[0].type == "variable_assignment"]
        if len(values) == len(rows):
            for child, *more in values:
                builtins.assign(self.expander, child, source, state, more)
            return [state]
        words = self.expander.words([node for row in rows[len(values) :] for node in row], source, state)
        own_variables = {}
        for child, *more in values:
            variable, value = builtins.assigned(self.expander, child, source, state, more)
            own_variables[variable] = value
        states = self.command(_Command(words, own_variables), state)
        for one in states if strings else ():
            one.input = None
        return states

    def command(self, command: _Command, state: State) -> States:
        """Follows a simple command of expanded words."""
        words = command.words
        if not words:
            return [state]
        name = words[0].known or ""
        if name in state.functions:
            return self._called(name, command, state)
        handler = builtins.BUILTINS.get(name)
        if handler is not None and not command.wrappers:
            handler(self, words, state)
            return [state]
        if name in ("eval", "source", "."):
            return self._evaluated(words, state) if name == "eval" else self._sourced(words, state)
        if name in ("test", "["):
            tested = words[1:-1] if name == "[" else words[1:]
            state.status = self.conditions.words([word.pieces for word in tested], state)
            return [state]
        found = inner(words)
        if found is not None and len(command.wrappers) < MOST_WRAPPERS:
            return self._wrapped(found, command, state)
        self._program(command, state)
        return [state]

    def _wrapped(self, found: Inner, command: _Command, state: State) -> States:
        """Follows what a wrapper starts (`srun`, `nohup`, `env V=1`, `bash -c`)."""
        own_variables = command.own_variables
        for word in found.variables:
            variable = word.text.partition("=")[0]
            own_variables = {**own_variables, variable: word.after(len(variable) + 1).pieces}
        if found.script is None:
            words = command.words
            wrapper = words[: len(words) - len(found.words)] if found.words else words[:1]
            is_outside = command.is_outside or found.is_outside
            return self.command(_Command(found.words, own_variables, (*command.wrappers, wrapper), is_outside), state)
        one = state.copy()
        one.exported |= frozenset(own_variables)
        for variable, text in own_variables.items():
            one.set(variable, text)
        runs = one.variables.get(_RUN_BY.get(posixpath.basename(found.script.text), ""))
        if found.is_file and runs is not None:
            self._text(runs.value, one)
        elif found.is_file:
            self._other_script(found.script, found.arguments, one)
        else:
            one.arguments = found.arguments or one.arguments
            around, self._around = self._around, (*self._around, *command.wrappers, command.words)
            try:
                self._text(found.script.pieces, one)
            finally:
                self._around = around
        state.status = Truth(True, is_command=True)
        return [state]

    def _text(self, text: Text, state: State) -> States:
        """Follows the commands in a text (`eval`, `bash -c`). Unknown parts of it stay unknown."""
        if shown(text).count("\n") > 2_000 or self._depth > MOST_DEPTH // 2:
            return [state]
        parts: list[Text] = []
        for index, piece in enumerate(text):
            if piece.unknown:
                name = f"__unknown_{index}"
                state.set(name, (piece,))
                parts.append(literal(f"${{{name}}}"))
            else:
                parts.append((piece._replace(quoted=False),))
        self._depth += 1
        try:
            return self._script(Source(joined(parts)), state)
        finally:
            self._depth -= 1

    def _evaluated(self, words: tuple[Word, ...], state: State) -> States:
        parts = [part for index, word in enumerate(words[1:]) for part in (literal(" ") if index else (), word.pieces)]
        return self._text(joined(parts), state)

    def _sourced(self, words: tuple[Word, ...], state: State) -> States:
        path = path_in(state.folder, words[1].pieces) if len(words) > 1 else None
        source = self._file(path)
        if source is None:
            return [state]
        before, script = state.arguments, state.script
        state.script = path or script
        if len(words) > 2:
            state.arguments = (before[0], *words[2:])
        self._depth += 3
        states = _without_left(self._script(source, state), ("return",))
        self._depth -= 3
        for one in states:
            one.script = script
            one.arguments = before if len(words) > 2 else one.arguments
        return states

    def _other_script(self, script: Word, arguments: tuple[Word, ...], state: State) -> None:
        """`bash other.sh a b`: follows that script with its arguments and the exported variables."""
        if not self.surroundings.follows_scripts:
            return
        path = path_in(state.folder, script.pieces)
        source = self._file(path)
        if source is None or path is None:
            self._record(_Command((Word(literal("bash")), script, *arguments)), state)
            return
        if not arguments and not state.files and self._says_by_itself(source.text, state):
            return
        self._calls[path] += 1
        if self._calls[path] > MOST_CALLS or self._open[path] >= MOST_OPEN:
            return
        one = State((Word(literal(path)), *arguments), state.folder, takes_more=False)
        one.variables = {name: state.variables[name] for name in state.exported if name in state.variables}
        one.exported, one.files = state.exported, dict(state.files)
        self._depth += 3
        self._open[path] += 1
        self._script(source, one)
        self._open[path] -= 1
        self._depth -= 3

    def _says_by_itself(self, text: str, state: State) -> bool:
        """Whether a script without arguments runs the same by itself: it reads no variable that this one exports."""
        telling = self.surroundings.telling
        return telling is not None and not any(name in telling or name in text for name in state.exported)

    def _file(self, path: str | None) -> Source | None:
        """A script of the repository, to be followed; None if it does not exist, or if scripts call each other."""
        if path is None or self._depth > MOST_DEPTH - 12:
            return None
        real = self.surroundings.find(path, "file")
        text = self.surroundings.read(real) if real else None
        return None if text is None or real is None else Source.of_file(real, text)

    def _called(self, name: str, command: _Command, state: State) -> States:
        function = state.functions[name]
        arguments, takes_more, local = state.arguments, state.takes_more, state.local
        state.arguments, state.takes_more, state.local = (arguments[0], *command.words[1:]), False, {}
        for variable, value in command.own_variables.items():
            builtins.make_local(variable, state)
            state.set(variable, value)
        self._depth += 2
        states = self.statement(function.body, function.source, state)
        self._depth -= 2
        for one in _without_left(states, ("return",)):
            for variable, before in (one.local or {}).items():
                one.variables.pop(variable, None)
                if before is not None:
                    one.variables[variable] = before
            one.arguments, one.takes_more, one.local = arguments, takes_more, local
        return states

    def _program(self, command: _Command, state: State) -> None:
        """Handles a program: prints its output, if that is known, and records the invocation."""
        words = command.words
        name = posixpath.basename(words[0].known or "")
        state.status = _HAS_CARDS if name == "nvidia-smi" else Truth(None, is_command=True)
        path = path_in(state.folder, words[0].pieces)
        if name.endswith(SHELL) and path:
            self._other_script(words[0], words[1:], state)
            return
        if state.output is not None:
            state.print(self._output(name, words, state))
        self._record(command, state)

    def _output(self, name: str, words: tuple[Word, ...], state: State) -> Text:
        lists = lists_gpus(name, words)
        if not lists and not counts_gpus(name, words):
            return printed(name, words, state)
        self.asked_for_gpus = True
        number = self.surroundings.gpus
        if number is None:
            return unknown("${GPUS}", NUMBER_OF_GPUS)
        return literal("GPU\n" * number if lists else f"{number}\n")

    def _record(self, command: _Command, state: State) -> None:
        if len(self.invocations) >= MOST_INVOCATIONS:
            return
        self.invocations.append(
            Invocation(
                words=command.words,
                at=self._at,
                variables={**state.environment(), **command.own_variables},
                folder=state.folder,
                elsewhere=state.elsewhere,
                wrappers=(*self._around, *command.wrappers),
                files=dict(state.files),
                conditions=state.conditions,
                is_outside=command.is_outside,
                is_of_script=self._open.total() > 1,
            )
        )

    def _printed(self, node: Node, source: Source, state: State) -> Text:
        """The output of the commands in `$( ... )`."""
        one = state.copy()
        one.output = ()
        one.left = ""
        self._depth += 1
        number = len(self.invocations)
        try:
            ended = self._statements(node.children, source, [one]) if self._depth < MOST_DEPTH else [one]
        finally:
            self._depth -= 1
        del self.invocations[number:]
        texts = {shown(way.output or ()): way.output or () for way in ended}
        if len(texts) != 1:
            return unknown("${...}", f"it depends on the condition in line {node.start_point[0] + 1}")
        return trimmed(next(iter(texts.values())))

    def _exists(self, path: str, kind: str) -> bool | None:
        """Whether a path exists; None if the repository lacks it but the script stops without it."""
        return None if path in self.expander.given else self.surroundings.find(path, kind) == path


# A machine that trains is assumed to have NVIDIA's driver: `if command -v nvidia-smi; ... elif command -v npu-smi`.
_HAS_CARDS = Truth(True, frozenset(("nvidia-smi",)))


def _continues(state: State) -> bool:
    return not state.is_dead and not state.left


def _same(state: State) -> States:
    return [state]


def _without_left(states: States, words: tuple[str, ...]) -> States:
    for one in states:
        if one.left in words:
            one.left = ""
    return states


_STATEMENTS: dict[str, Callable[[Interpreter, Node, Source, State], States]] = {
    "command": Interpreter._command,
    "variable_assignment": Interpreter._assignment,
    "variable_assignments": Interpreter._assignments,
    "declaration_command": Interpreter._declaration,
    "unset_command": Interpreter._unset,
    "redirected_statement": Interpreter._redirected,
    "pipeline": Interpreter._pipeline,
    "list": Interpreter._list,
    "if_statement": Interpreter._if,
    "case_statement": Interpreter._case,
    "for_statement": Interpreter._for,
    "c_style_for_statement": Interpreter._for_counting,
    "while_statement": Interpreter._while,
    "function_definition": Interpreter._function,
    "compound_statement": Interpreter._block,
    "do_group": Interpreter._block,
    "subshell": Interpreter._subshell,
    "test_command": Interpreter._test,
    "negated_command": Interpreter._negated,
    "ERROR": Interpreter._block,
}
