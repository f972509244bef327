"""Builds a closure over `Facts` from a checked form. It returns UNKNOWN for what cannot be known.

Building costs about a microsecond per node and needs neither `ast` nor the schemas, so that forms stored in the
snapshot of the shipped rules are built directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from memlint.expressions import values
from memlint.expressions.derived_facts import READERS
from memlint.expressions.facts import MAX_TEXT, Evaluate, Facts
from memlint.expressions.functions import FUNCTIONS
from memlint.formats.fields import interpolated
from memlint.memory.values import CARD_DETAILS
from memlint.run import UNKNOWN

Form = list[Any]


class _Absent:
    """The type of ABSENT, which stands for a key that a file does not have. It never leaves this module's closures."""

    __slots__ = ()


ABSENT = _Absent()
# An unstated framework version counts as the newest one: later than any version in a rule.
_NEWEST = (10**9,)


def build(form: Form) -> Evaluate:
    """Builds the closure of a checked form."""
    return _BUILDERS[form[0]](form)


def _value(form: Form) -> Evaluate:
    value = form[1]
    return lambda facts: value


def _version_value(form: Form) -> Evaluate:
    value = tuple(form[1])
    return lambda facts: value


def _field(form: Form) -> Evaluate:
    read = attrgetter(form[1])
    return lambda facts: read(facts.run)


def _fact(form: Form) -> Evaluate:
    return READERS[form[1]]


def _term(form: Form) -> Evaluate:
    """A named term of the estimate: absent terms are UNKNOWN."""
    name = form[1]
    is_of_card = name in CARD_DETAILS

    def read(facts: Facts) -> Any:
        found = facts.estimate if is_of_card else facts.tensors
        return found.details.get(name, UNKNOWN) if found else UNKNOWN

    return read


def _phase(form: Form) -> Evaluate:
    """`["phase", "backward", "logits"]`; the phase "" is the one of the peak, the component "" its sum."""
    _, phase_name, component = form

    def read(facts: Facts) -> Any:
        found = facts.tensors
        if found is None:
            return UNKNOWN
        for phase in found.phases:
            if phase.name == (phase_name or found.peak_phase):
                return phase.components.get(component, 0) if component else phase.allocated_bytes
        return UNKNOWN

    return read


def _raw_or_absent(form: Form) -> Evaluate:
    """The value of a key as written in the file; UNKNOWN for a placeholder that is filled in at the start (`${LR}`)."""
    _, section, *keys = form

    def read(facts: Facts) -> Any:
        node = facts.raw.get(section, ABSENT)
        for key in keys:
            node = node.get(key, ABSENT) if isinstance(node, dict) else ABSENT
        return UNKNOWN if isinstance(node, str) and interpolated(node) else node

    return read


def _raw(form: Form) -> Evaluate:
    read = _raw_or_absent(form)

    def evaluate(facts: Facts) -> Any:
        value = read(facts)
        return UNKNOWN if value is ABSENT else value

    return evaluate


def _variable(form: Form) -> Evaluate:
    name = form[1]

    def read(facts: Facts) -> Any:
        if name not in facts.values:
            facts.values[name] = facts.variables[name](facts)
        return facts.values[name]

    return read


def _local(form: Form) -> Evaluate:
    return lambda facts: facts.local


def _present(form: Form) -> Evaluate:
    """The value as the file has it, which may be ABSENT."""
    return _raw_or_absent(form) if form[0] == "raw" else build(form)


def _has(form: Form) -> Evaluate:
    read = _present(form[1])
    return lambda facts: read(facts) is not ABSENT


def _given(form: Form) -> Evaluate:
    """Whether a key has a value other than null. UNKNOWN for a placeholder, which may be filled in with null."""
    read, is_key = _present(form[1]), form[1][0] == "raw"

    def evaluate(facts: Facts) -> Any:
        value = read(facts)
        if value is UNKNOWN and is_key:
            return UNKNOWN
        return value is not ABSENT and value is not UNKNOWN and value is not None

    return evaluate


def _enabled(form: Form) -> Evaluate:
    read = _present(form[1])
    return lambda facts: read(facts) is True


def _truth(value: Any) -> Any:
    """The truth value that Python gives a value of a file; UNKNOWN stays UNKNOWN."""
    return UNKNOWN if value is UNKNOWN else value is not ABSENT and bool(value)


def _truthy(form: Form) -> Evaluate:
    read = _present(form[1])
    return lambda facts: _truth(read(facts))


def _truthy_keys(form: Form) -> Evaluate:
    keys = [(part[-1], _raw_or_absent(part)) for part in form[1:]]
    return lambda facts: [key for key, read in keys if _truth(read(facts)) is True]


def _known(form: Form) -> Evaluate:
    read = build(form[1])
    return lambda facts: read(facts) is not UNKNOWN


def _default(form: Form) -> Evaluate:
    read, fallback = _present(form[1]), build(form[2])

    def evaluate(facts: Facts) -> Any:
        value = read(facts)
        return fallback(facts) if value is ABSENT or value is None else value

    return evaluate


def _origin(form: Form) -> Evaluate:
    name = form[1]

    def evaluate(facts: Facts) -> Any:
        origin = facts.run.origins.get(name)
        return origin.kind if origin else UNKNOWN

    return evaluate


def _package_version(form: Form) -> Evaluate:
    name = form[1]

    def evaluate(facts: Facts) -> Any:
        stack = facts.run.stack
        if name in _STACK_FIELDS:
            return getattr(stack, name) or _NEWEST
        return (stack.framework_version or _NEWEST) if stack.framework == name else UNKNOWN

    return evaluate


_STACK_FIELDS = frozenset({"transformers", "torch", "deepspeed", "peft", "trl", "accelerate"})


def build_condition(form: Form) -> Evaluate:
    """Evaluates whether a form is True. Of an `and`, the first part that is not ends the evaluation, as it does not
    matter whether the whole is False or UNKNOWN."""
    if form[0] != "and":
        read = build(form)
        return lambda facts: read(facts) is True
    parts = [build(part) for part in form[1:]]
    return lambda facts: all(part(facts) is True for part in parts)


def _and(form: Form) -> Evaluate:
    parts = [build(part) for part in form[1:]]
    return lambda facts: values.all_of(part(facts) for part in parts)


def _or(form: Form) -> Evaluate:
    parts = [build(part) for part in form[1:]]
    return lambda facts: values.any_of(part(facts) for part in parts)


def _not(form: Form) -> Evaluate:
    read = build(form[1])
    return lambda facts: values.negate(read(facts))


def _if(form: Form) -> Evaluate:
    condition, then, otherwise = (build(part) for part in form[1:])

    def evaluate(facts: Facts) -> Any:
        value = condition(facts)
        if value is True:
            return then(facts)
        return otherwise(facts) if value is False else UNKNOWN

    return evaluate


def _two(operation: Callable[[Any, Any], Any]) -> Callable[[Form], Evaluate]:
    def builder(form: Form) -> Evaluate:
        left, right = build(form[1]), build(form[2])
        return lambda facts: operation(left(facts), right(facts))

    return builder


def _equals(form: Form) -> Evaluate:
    """Equality. Faster if one side is a literal text, the usual case."""
    left, right = form[1], form[2]
    if right[0] != "value" or not isinstance(right[1], str):
        return _two(values.equal)(form)
    read, text = build(left), right[1]

    def evaluate(facts: Facts) -> Any:
        value = read(facts)
        return UNKNOWN if value is UNKNOWN else value == text

    return evaluate


def _negative(form: Form) -> Evaluate:
    read = build(form[1])
    return lambda facts: values.negative(read(facts))


def _version_order(form: Form) -> Evaluate:
    compare, left, right = _ORDERS[form[1]], build(form[2]), build(form[3])

    def evaluate(facts: Facts) -> Any:
        one, other = values.version_order(left(facts), right(facts))
        return UNKNOWN if one is UNKNOWN else compare(one, other)

    return evaluate


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
}


def _in(form: Form) -> Evaluate:
    item, whole = build(form[1]), build(form[2])

    def evaluate(facts: Facts) -> Any:
        listed = whole(facts)
        if not isinstance(listed, (list, tuple)):
            return UNKNOWN
        facts.spend(len(listed))
        return values.contains(listed, item(facts))

    return evaluate


def _list(form: Form) -> Evaluate:
    parts = [build(part) for part in form[1:]]
    return lambda facts: [part(facts) for part in parts]


def _call(form: Form) -> Evaluate:
    function = FUNCTIONS[form[1]]
    parts = [build(part) for part in form[2:]]
    kinds = function.parameters
    allowed = [_classes(kinds[min(index, len(kinds) - 1)]) for index in range(len(parts))]

    def evaluate(facts: Facts) -> Any:
        arguments = [part(facts) for part in parts]
        for argument, classes in zip(arguments, allowed):
            if not isinstance(argument, classes) or (isinstance(argument, bool) and bool not in classes):
                return UNKNOWN
        return _called(facts, function.call, arguments)

    return evaluate


def _called(facts: Facts, call: Callable[..., Any], arguments: list[Any]) -> Any:
    for argument in arguments:
        if isinstance(argument, (list, tuple)):
            facts.spend(len(argument))
    try:
        result = call(*arguments)
    except (ArithmeticError, ValueError):
        return UNKNOWN
    return values.bounded(result) if isinstance(result, (int, float)) else result


def _classes(kinds: frozenset[str]) -> tuple[type, ...]:
    return tuple(classes for kind in sorted(kinds) for classes in _CLASSES[kind])


_CLASSES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),  # an int is accepted wherever a float is
    "bool": (bool,),
    "str": (str,),
    "null": (type(None),),
    "list": (list, tuple),
    "map": (dict,),
    "version": (tuple,),
}


def _matches(form: Form) -> Evaluate:
    read, pattern = build(form[1]), form[2]

    def evaluate(facts: Facts) -> Any:
        text = read(facts)
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            return UNKNOWN
        return re.search(pattern, text) is not None

    return evaluate


def _quantified(decide: Callable[[Any], Any]) -> Callable[[Form], Evaluate]:
    def builder(form: Form) -> Evaluate:
        read = build(form[1])

        def evaluate(facts: Facts) -> Any:
            listed = read(facts)
            if not isinstance(listed, (list, tuple)):
                return UNKNOWN
            facts.spend(len(listed))
            return decide(listed)

        return evaluate

    return builder


def _looped(decide: Callable[[Any], Any]) -> Callable[[Form], Evaluate]:
    def builder(form: Form) -> Evaluate:
        read, body, size = build(form[2]), build(form[3]), _size(form[3])

        def each(facts: Facts, listed: Any) -> Any:
            for item in listed:
                facts.spend(size)
                facts.local = item
                yield body(facts)

        def evaluate(facts: Facts) -> Any:
            listed = read(facts)
            return decide(each(facts, listed)) if isinstance(listed, (list, tuple)) else UNKNOWN

        return evaluate

    return builder


def _size(form: Any) -> int:
    return 1 + sum(_size(part) for part in form if isinstance(part, list)) if isinstance(form, list) else 0


_BUILDERS: dict[str, Callable[[Form], Evaluate]] = {
    "value": _value,
    "version": _version_value,
    "field": _field,
    "fact": _fact,
    "term": _term,
    "phase": _phase,
    "raw": _raw,
    "variable": _variable,
    "local": _local,
    "has": _has,
    "given": _given,
    "enabled": _enabled,
    "truthy": _truthy,
    "truthy_keys": _truthy_keys,
    "known": _known,
    "default": _default,
    "origin": _origin,
    "package_version": _package_version,
    "and": _and,
    "or": _or,
    "not": _not,
    "if": _if,
    "==": _equals,
    "!=": _two(values.unequal),
    "<": _two(values.less),
    "<=": _two(values.less_equal),
    ">": _two(values.greater),
    ">=": _two(values.greater_equal),
    "+": _two(values.add),
    "-": _two(values.subtract),
    "*": _two(values.multiply),
    "/": _two(values.divide),
    "//": _two(values.floor_divide),
    "%": _two(values.remainder),
    "negative": _negative,
    "version_order": _version_order,
    "in": _in,
    "list": _list,
    "call": _call,
    "matches": _matches,
    "any": _quantified(values.any_of),
    "all": _quantified(values.all_of),
    "any_of": _looped(values.any_of),
    "all_of": _looped(values.all_of),
}
