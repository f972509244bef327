"""Parses rule files. Their schema, names and types are checked here, before any config is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memlint._record import NamedTuple
from memlint.expressions.build import Form
from memlint.expressions.check import CONSTANTS, PACKAGES, Name, VocabularyEntry
from memlint.expressions.conjunction import conjunction
from memlint.expressions.functions import FUNCTIONS
from memlint.expressions.kinds import BOOL, NULL, comparable, text
from memlint.expressions.language import Program, compile_expression
from memlint.expressions.parse import ExpressionError
from memlint.expressions.render import Template
from memlint.expressions.template import compile_template
from memlint.expressions.vocabulary import SECTIONS, Vocabulary
from memlint.expressions.yaml_place import locate, locate_key
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import schema_issues
from memlint.ruleset.necessary import needs
from memlint.ruleset.rule import PROFILES, Body, Compiled, Condition, FixTemplate, Rule, RuleError, Texts
from memlint.source.document import Document, Path

SCHEMA = "rule.json"
_TAKEN = frozenset({*SECTIONS, *CONSTANTS, *FUNCTIONS})
T = TypeVar("T")


class _File(NamedTuple):
    """A rule file while it is parsed: its document and the names that its expressions may use."""

    document: Document
    names: Vocabulary

    @property
    def fields(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self.document.value
        return fields

    def error(self, path: Path, message: str, offset: int = 0) -> RuleError:
        return RuleError(self.document.path, *locate(self.document, path, offset), message)

    def key_error(self, path: Path, message: str) -> RuleError:
        """An error that is about the key at `path`, not about its value."""
        return RuleError(self.document.path, *locate_key(self.document, path), message)

    def compiled(self, path: Path, source: str, compiler: Callable[[str, Vocabulary], T], skip: int = 0) -> T:
        try:
            return compiler(source, self.names)
        except ExpressionError as error:
            raise self.error(path, error.message, error.start + skip) from None

    def condition(self, path: Path, source: str) -> Program:
        program = self.compiled(path, source, compile_expression)
        if not program.type.kinds & BOOL.kinds:
            raise self.error(path, f"a condition gives true or false, this gives {text(program.type.kinds)}")
        return program


def parse_rule(document: Document) -> Rule:
    """Parses a rule file. Raises `RuleError` at the place of the first mistake."""
    _check_shape(document)
    file = _File(document, Vocabulary(tuple(document.value.get("formats", ()))))
    variables = _variables(file)
    if "when" not in file.fields or "message" not in file.fields:
        raise file.error((), "a rule file needs `when` and `message`")
    message = file.compiled(("message",), file.fields["message"].strip(), compile_template)
    body = Body(Condition(_condition_form(file)), message, variables, _expressed_place(file))
    return _common(file)._replace(body=lambda: body, needs=needs(body))


def parse_python_rule(document: Document, check: Any) -> Rule:
    """A rule with its fields in a Python module and a `check(facts)` that yields hits. Raises `RuleError`."""
    _check_shape(document)
    file = _File(document, Vocabulary(tuple(document.value.get("formats", ()))))
    body = Body(variables=_variables(file))
    return _common(file)._replace(body=lambda: body, check=check)


def _check_shape(document: Document) -> None:
    for problem in document.problems:
        raise RuleError(document.path, problem.span.line, problem.span.column, problem.message)
    non_text_key = _non_text_key(document.value, ())
    if non_text_key is not None:
        raise RuleError(
            document.path,
            *locate_key(document, non_text_key),
            f"`{non_text_key[-1]}` is no text: write the key in quotes",
        )
    for issue in schema_issues(document.value, document.path, SCHEMA):
        find = locate_key if issue.on_key else locate
        raise RuleError(document.path, *find(document, issue.pointer), issue.message)


def _non_text_key(value: Any, path: Path) -> Path | None:
    """The path of the first key that YAML read as a number or a truth value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(value, dict) and not isinstance(key, str):
            return (*path, key)
        found = _non_text_key(item, (*path, key))
        if found is not None:
            return found
    return None


def _common(file: _File) -> Rule:
    fields = file.fields
    severity, fixes = fields["severity"], _fixes(file)
    return Rule(
        id=fields["id"],
        name=fields["name"],
        severity=severity if isinstance(severity, str) else severity["high"],
        severities={} if isinstance(severity, str) else severity,
        at=_at(file),
        confidence=fields.get("confidence", "high"),
        formats=tuple(fields.get("formats", ())),
        purposes=tuple(fields.get("purposes", ("train",))),
        profiles=tuple(fields.get("profiles", PROFILES)),
        preview=fields.get("preview", False),
        related=tuple(_related(file, index, item) for index, item in enumerate(fields.get("related", ()))),
        folds_into=tuple(fields.get("folds_into", ())),
        fixes=lambda: fixes,
        plan=fields.get("fix") == "plan" or "plan" in _fix_list(file),
        texts=lambda: _texts(fields),
        path=file.document.path,
    )


def _texts(fields: Mapping[str, Any]) -> Texts:
    applies = ", ".join(f"{package} {versions}" for package, versions in fields.get("applies", {}).items())
    sources = tuple(source.strip() for source in fields["sources"])
    return Texts(fields["title"], fields["why"].strip(), sources, applies, fields.get("when", "").strip())


def _variables(file: _File) -> dict[str, Compiled]:
    """The variables in the order of the file. Each may use only those above it, which excludes cycles."""
    compiled = {}
    for name, source in file.fields.get("variables", {}).items():
        path = ("variables", name)
        if not name.isidentifier() or file.names.lookup((name,)) is not None or name in _TAKEN:
            raise file.key_error(path, f"`{name}` cannot name a variable")
        program = file.compiled(path, str(source), compile_expression)
        compiled[name] = Compiled(program.form)
        file.names.variables[name] = program.type
    return compiled


def _condition_form(file: _File) -> Form:
    condition = file.condition(("when",), file.fields["when"]).form
    versions = [
        form
        for package, ranges in file.fields.get("applies", {}).items()
        for form in _version_range(file, package, ranges)
    ]
    return conjunction(*versions, condition) if versions else condition


def _version_range(file: _File, package: str, ranges: str) -> list[Form]:
    path = ("applies", package)
    if package not in PACKAGES:
        suggestion = nearest(package, PACKAGES)
        raise file.key_error(
            path, f"unknown package `{package}`" + (f", did you mean `{suggestion}`?" if suggestion else "")
        )
    return [_version_bound(file, path, package, part.strip()) for part in ranges.split(",")]


def _version_bound(file: _File, path: Path, package: str, bound: str) -> Form:
    for sign in (">=", "<=", "==", "!=", ">", "<"):
        if bound.startswith(sign):
            source = f'version("{package}") {sign} "{bound[len(sign) :].strip()}"'
            return file.compiled(path, source, lambda text_, names: compile_expression(text_, names)).form
    raise file.error(path, f'"{bound}" is not a bound such as ">=4.57"')


def _at(file: _File) -> tuple[str, ...]:
    return tuple(_place_name(file, path, name) for path, name in _places(file) if "{" not in name)


def _expressed_place(file: _File) -> Template:
    """The place given by a template such as `config.{key}`; only the first of `at` may be one."""
    (path, name), *others = _places(file)
    for place_path, text_ in others:
        if "{" in text_:
            raise file.error(place_path, "only the first place can hold an expression")
    return file.compiled(path, name, compile_template) if "{" in name else ()


def _places(file: _File) -> list[tuple[Path, str]]:
    value = file.fields["at"]
    return [(("at",), value)] if isinstance(value, str) else [(("at", index), name) for index, name in enumerate(value)]


def _place_name(file: _File, path: Path, name: str) -> str:
    """Checks that a name can have a place in a file: a field of the run or a key of a section."""
    if name in file.names.sections:
        return name
    entry = _entry(file, path, name)
    if entry.form[0] not in ("field", "raw"):
        raise file.error(path, f"`{name}` has no place in a file: name a field of the run or a key")
    return name


def _entry(file: _File, path: Path, name: str, on_key: bool = False) -> VocabularyEntry:
    parts: Name = tuple(name.split("."))
    entry = file.names.lookup(parts)
    if entry is None:
        suggestion = file.names.suggest(parts)
        error = file.key_error if on_key else file.error
        raise error(path, f"unknown name `{name}`" + (f", did you mean `{suggestion}`?" if suggestion else ""))
    return entry


def _related(file: _File, index: int, item: Mapping[str, str]) -> tuple[str, str]:
    return _place_name(file, ("related", index, "at"), item["at"]), item["label"]


def _fix_list(file: _File) -> list[Any]:
    fixes = file.fields.get("fix", [])
    return fixes if isinstance(fixes, list) else []


def _fixes(file: _File) -> tuple[FixTemplate, ...]:
    numbered = [(("fix", index), item) for index, item in enumerate(_fix_list(file)) if item != "plan"]
    return tuple(_fix(file, path, item) for path, item in numbered)


def _fix(file: _File, path: Path, item: Mapping[str, Any]) -> FixTemplate:
    template: Template = file.compiled((*path, "title"), item["title"].strip(), compile_template)
    when = item.get("when")
    return FixTemplate(
        title=template,
        changes={name: _change(file, (*path, "set", name), name, value) for name, value in item.get("set", {}).items()},
        keys=(*_set_keys(file, path, item), *_removed_keys(file, path, item), *_renamed_keys(file, path, item)),
        safe=item.get("safe", False),
        speed=item.get("speed", 1.0),
        quality=item.get("quality", "none"),
        note=item.get("note", ""),
        when=Condition(file.condition((*path, "when"), when).form) if when else None,
    )


def _change(file: _File, path: Path, name: str, value: Any) -> Form:
    entry = _entry(file, path, name, on_key=True)
    if entry.form[0] != "field":
        raise file.key_error(path, f"`{name}` cannot be set: name a field of the run, or use `set_key`")
    form, kinds, choices = _new_value(file, path, value)
    if not comparable(kinds, entry.type.kinds):
        raise file.error(path, f"`{name}` is {text(entry.type.kinds)}, never {text(kinds)}")
    for choice in choices:
        if entry.type.choices and choice not in entry.type.choices:
            raise file.error(path, f"`{name}` is one of {', '.join(entry.type.choices)}")
    return form


def _new_value(file: _File, path: Path, value: Any) -> tuple[Form, frozenset[str], tuple[str, ...]]:
    """(form, types, choices) of a new value. A text that begins with `=` is an expression, else it is a literal."""
    if isinstance(value, str) and value.startswith("="):
        program = file.compiled(path, value[1:], compile_expression, skip=1)
        return program.form, program.type.kinds, program.type.choices
    kind = "null" if value is None else type(value).__name__.replace("dict", "map")
    return ["value", value], frozenset({kind}), (value,) if isinstance(value, str) else ()


def _key(file: _File, path: Path, name: str, on_key: bool = True) -> tuple[str, tuple[str, ...]]:
    section, *pointer = name.split(".")
    if section not in file.names.sections or not pointer:
        error = file.key_error if on_key else file.error
        raise error(path, f"`{name}` is no key: begin with {', '.join(file.names.sections)}")
    _entry(file, path, name, on_key)
    return section, tuple(pointer)


def _set_keys(file: _File, path: Path, item: Mapping[str, Any]) -> list[Any]:
    found = []
    for name, value in item.get("set_key", {}).items():
        key_path = (*path, "set_key", name)
        form, kinds, _ = _new_value(file, key_path, value)
        entry = _entry(file, key_path, name, on_key=True)
        if not comparable(kinds, entry.type.kinds - NULL.kinds):
            raise file.error(key_path, f"`{name}` is {text(entry.type.kinds)}, never {text(kinds)}")
        found.append(("set", *_key(file, key_path, name), form))
    return found


def _removed_keys(file: _File, path: Path, item: Mapping[str, Any]) -> list[Any]:
    names = item.get("remove_key", [])
    listed = [names] if isinstance(names, str) else names
    return [("remove", *_key(file, (*path, "remove_key"), name, on_key=False), None) for name in listed]


def _renamed_keys(file: _File, path: Path, item: Mapping[str, Any]) -> list[Any]:
    renamed = item.get("rename_key", {}).items()
    return [
        ("rename", *_key(file, (*path, "rename_key", name), name), ["value", new_name]) for name, new_name in renamed
    ]
