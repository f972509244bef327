"""The messages of schema violations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Issue
from memlint.formats.fields import as_number
from memlint.formats.schema.refs import Schema, follow
from memlint.formats.schema.suggest import nearest
from memlint.source.document import Path
from memlint.source.placeholders import word_to_fill_in

_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "a mapping",
}
_MOST_WORDS = 10  # of one list of allowed values
_BOOLEANS = {"true": True, "false": False}
_CODES = {"type": "wrong-type", "anyOf": "wrong-type", "required": "missing-key"}
_KINDS = ((str, "the string "), (list, "the list "), (dict, "the mapping "))
_BOUNDS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
}
_SIZES = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "key"),
    "maxProperties": ("at most", "key"),
}


def describe(schema: Schema, root: Schema) -> str:
    """The values that a schema allows, in words: "an integer or null", "one of pt, sft, rm"."""
    expected = list(dict.fromkeys(_expectations(schema, root, 0)))
    if len(expected) > 1 and "null" in expected:  # people rarely write null, so it comes last
        expected.remove("null")
        expected.append("null")
    return " or ".join(expected) or "something else"


def removed_values(schema: Schema) -> Collection[Any]:
    """The values of a key that older releases alone take: nobody is to be sent to them."""
    gone: Mapping[str, str] = schema.get("x-memlint-removed-values", {})
    return gone.keys()


def _expectations(schema: Any, root: Schema, depth: int) -> list[str]:
    schema = follow(schema, root)
    if not isinstance(schema, dict) or depth > 4:
        return []
    if "x-memlint-says" in schema:
        return [schema["x-memlint-says"]]
    if "enum" in schema:
        gone = removed_values(schema)
        return [_one_of(_distinct(_literal(option) for option in schema["enum"] if option not in gone))]
    if "const" in schema:
        return [_literal(schema["const"])]
    if "anyOf" in schema:
        return [expectation for branch in schema["anyOf"] for expectation in _expectations(branch, root, depth + 1)]
    kinds = schema.get("type", ())
    return [_NOUNS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind in _NOUNS]


def _one_of(words: list[str]) -> str:
    if len(words) > _MOST_WORDS:
        return f"one of {', '.join(words[: _MOST_WORDS - 2])} and {len(words) - _MOST_WORDS + 2} more"
    return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


def _distinct(words: Iterable[str]) -> list[str]:
    """Each word once, ignoring case, in its first spelling."""
    found: dict[str, str] = {}
    for word in words:
        found.setdefault(word.lower(), word)
    return list(found.values())


def message_of(error: Any, expected: str, path: str, pointer: Path, owner: Schema) -> Issue:
    """One error of jsonschema-rs as an issue; `expected` describes `owner`, the schema at `pointer`."""
    kind = error.kind.name
    name = key_of(pointer)
    if kind == "required":
        missing = error.kind.property
        return Issue("missing-key", f"`{missing}` is missing", path, pointer)
    code = _CODES.get(kind, "bad-value")
    scalar = isinstance(error.instance, (str, bool))
    aliases = owner.get("x-memlint-value-aliases", {})  # names of the expected values in other frameworks
    alias = aliases.get(str(error.instance).lower(), "") if scalar else ""
    got = f"got {value_words(error.instance)}"
    if kind in _BOUNDS:
        return Issue(code, f"{name} must be {_BOUNDS[kind]} {error.kind.limit:g}, {got}", path, pointer)
    if kind in _SIZES:
        expected, noun = _SIZES[kind]
        number = error.kind.limit
        return Issue(code, f"{name} has to have {expected} {number} {noun}{'s' * (number != 1)}, {got}", path, pointer)
    if code == "wrong-type" and expected.startswith("one of ") and _is_number(error.instance):
        code = "bad-value"  # `stage: 7` has the right type
    if code == "wrong-type" and (word := _word_to_fill_in(error.instance, expected, pointer)):
        message = f"{name} holds `{word}`, which something else fills in: its value is not known here"
        return Issue("interpolation", message, path, pointer, "info")
    meant = alias or _nearest_option(error, kind, removed_values(owner))
    if meant:
        message = f"{name}: {got.removeprefix('got ')}: did you mean `{meant}`? It takes {expected}"
        return Issue(code, message, path, pointer, suggestion=meant)
    edit = _unquoting_edit(error.instance, expected, path, pointer) if code == "wrong-type" else None
    return Issue(code, f"{name} wants {_with_least(expected, error.instance, owner)}, {got}", path, pointer, edit=edit)


def _word_to_fill_in(value: Any, expected: str, pointer: Path) -> str:
    """The name to be filled in that `value` is, where a collection is not what is expected; "" for other values."""
    takes_collection = "a mapping" in expected or "a list" in expected
    return "" if takes_collection else word_to_fill_in(str(pointer[-1]) if pointer else "", value)


def _with_least(expected: str, value: Any, owner: Schema) -> str:
    """`expected` with the least integer that is taken, where `value` is a smaller one: "wants an integer, got 0" would
    help nobody."""
    whole = [one for one in owner.get("anyOf", ()) if isinstance(one, dict) and one.get("type") == "integer"]
    least = next((one["minimum"] for one in whole if "minimum" in one), None)
    if type(value) is not int or least is None or value >= least:
        return expected
    return expected.replace(_NOUNS["integer"], f"{_NOUNS['integer']} of at least {least}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unquoting_edit(value: Any, expected: str, path: str, pointer: Path) -> Edit | None:
    """The edit that removes quotes, where the text spells an expected number or boolean: `"2"` becomes 2."""
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    if text == "none" and expected.endswith(" or null"):
        return Edit(path, pointer, "set", None)
    if text in _BOOLEANS and _NOUNS["boolean"] in expected:
        return Edit(path, pointer, "set", _BOOLEANS[text])
    if text.isdecimal() and text.isascii() and len(text) < 16:
        numeric = _NOUNS["integer"] in expected or _NOUNS["number"] in expected
        return Edit(path, pointer, "set", int(text)) if numeric else None
    number = as_number(value)
    return Edit(path, pointer, "set", number) if number is not None and _NOUNS["number"] in expected else None


_ON_THE_CARD = ("gpu", "cuda")


def _nearest_option(error: Any, kind: str, gone: Collection[Any]) -> str:
    if kind != "enum" or not isinstance(error.instance, str):
        return ""
    options = [option for option in error.kind.options if isinstance(option, str) and option not in gone]
    if error.instance.lower() in _ON_THE_CARD and {"none", "cpu"} <= set(options):
        return "none"  # an offload device: nothing is offloaded
    return nearest(error.instance, options)


def unknown_key(
    key: str, known: Mapping[str, Schema], aliases: Mapping[str, Any], path: str, pointer: Path, severity: str
) -> Issue:
    """The issue of a key that the schema does not list, with the key that was probably meant."""
    alias = aliases.get(key)
    if alias and alias["key"] in known:
        name = alias["key"]
        meant = f"{name}: {_literal(alias['value'])}" if "value" in alias else name
    else:
        name = nearest(key, [word for word in known if "x-memlint-removed-in" not in known[word]])
        meant = name
    hint = f": did you mean `{meant}`?" if meant else ""
    shown = key if len(key) <= 80 else key[:77] + "..."
    # `load_in_4bit: true` does not become `quantization_bit: true`: no rename where the value changes too.
    rename_to = "" if alias and "value" in alias else name
    return Issue(
        "unknown-key", f"unknown key `{shown}`{hint}", path, pointer, severity, on_key=True, suggestion=rename_to
    )


def key_of(pointer: Path) -> str:
    """A place as messages name it: `zero_optimization.stage`, `deepspeed[0]`."""
    text = ""
    for step in pointer:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"`{text}`" if text else "the file"


def value_words(value: Any) -> str:
    """A value as a message names it: "the string '8x'", "the list [1, 2]", "null"."""
    if value is None or isinstance(value, bool):
        return _literal(value)
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    noun = next((noun for kind, noun in _KINDS if isinstance(value, kind)), "")
    return f"{noun}{text}"


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
