"""One edit of a Python run's arguments as one patch: of the literal that says the value, or a new argument.

The literal may be an argument of the call, a constant, the default of an option, a value in a configuration file
that the script loads, or a string in a notebook's JSON. What the script computes is not touched. Whoever places an edit
reads the script again (fixes/edits/apply.py) and compares every value of the run.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import memlint.fixes.edits.json as json_edits
import memlint.fixes.edits.yaml as yaml_edits
from memlint.findings import Edit, Patch
from memlint.fixes.edits.text import CannotEdit, dotted, indent_of, line_end, line_start, trimmed
from memlint.formats.trainer.python.python_run import LOOP
from memlint.repository.declared_keys import path_of
from memlint.source import load
from memlint.source.document import Document, Problem, Span
from memlint.source.python import notebook
from memlint.source.scalars import same
from memlint.source.suffixes import SHELL

_CHECKPOINTING = "gradient_checkpointing"
_DTYPE = ("dtype",)
_OF_LOADING = frozenset({"dtype", "attn_implementation"})  # keys of the call that loads the model
_IMPORTS_TORCH = re.compile(r"^import torch$", re.MULTILINE)
_KEYWORD = re.compile(r"(\w+)\s*=\s*\Z")
_COMMA = re.compile(r"(\s*,)[ \t]*")
_END_OF_LINE = re.compile(r"[ \t]*\r?\n")
_GIVEN_DTYPE = re.compile(r"\b(?:torch_)?dtype\s*=\s*(torch\.\w+)(?=\s*[,)])")


def place(document: Document, edit: Edit) -> Patch:
    """The patch of one edit. Raises CannotEdit with the reason where there is none."""
    if edit.action != "set":
        return _without_or_renamed(document, edit)
    if document.start is not None and edit.pointer[0] in document.start.accepted.names:
        return _at_declared_key(document, edit, document.start.accepted.names[str(edit.pointer[0])])
    if edit.pointer not in document.places:
        return _added(document, edit)
    if edit.pointer == _DTYPE:
        return _dtype_in_call(document, edit)
    span = document.places[edit.pointer].value
    if document.path.endswith((".py", ".ipynb")):
        return _literal(document, edit, span)
    return _in_config(document, edit, span)


def _without_or_renamed(document: Document, edit: Edit) -> Patch:
    """A training argument `name=value` that goes, or gets another name. A configuration file keeps its keys, and a
    script its variables: the script reads them by their names."""
    span = document.places[edit.pointer].value if edit.pointer in document.places else None
    first, last = document.start.values.sources.get((), (0, 0)) if document.start is not None else (0, 0)
    if span is None or not first <= span.start < span.end < last or not document.path.endswith(".py"):
        raise CannotEdit(f"`{dotted(edit.pointer)}` does not stand in the call of the training arguments")
    name = _KEYWORD.search(document.text, first, span.start)
    if name is None or name[1] != edit.pointer[-1]:
        raise CannotEdit(f"`{dotted(edit.pointer)}` is given under another name")
    if edit.action == "rename":
        return Patch(edit.path, *name.span(1), str(edit.value))
    if "#" in document.text[span.end : line_end(document.text, span.end)]:
        raise CannotEdit("a comment stands behind the argument")
    return Patch(edit.path, *_with_comma(document.text, name.start(), span.end), "")


def _with_comma(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters of an argument and the comma that goes with it: its whole lines where it has them for itself."""
    comma = _COMMA.match(text, end)
    end = comma.end(1) if comma is not None else end
    line, rest = line_start(text, start), _END_OF_LINE.match(text, end)
    if not text[line:start].strip() and rest is not None:
        return line, rest.end()
    if comma is not None:
        return start, comma.end()
    before = len(text[:start].rstrip())
    return (before - 1 if text[before - 1] == "," else start), end


def _literal(document: Document, edit: Edit, span: Span) -> Patch:
    old = document.text[span.start : span.end]
    is_notebook = document.path.endswith(".ipynb")
    code = _from_json(old) if is_notebook else old
    current = _value(document, edit)
    try:
        found = ast.literal_eval(code)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise CannotEdit(_said_elsewhere(document, edit)) from None
    found = list(found) if isinstance(found, tuple) else found
    if not same(found, current):
        raise CannotEdit("what stands there is not the value itself")
    text = _written(edit.value, code)
    return Patch(edit.path, span.start, span.end, _to_json(text) if is_notebook else text)


def _dtype_in_call(document: Document, edit: Edit) -> Patch:
    """The dtype that the call of `from_pretrained` gives as torch's: `torch_dtype=torch.float32`."""
    call = document.start.values.loading_call if document.start is not None else None
    given = list(_GIVEN_DTYPE.finditer(document.text, *call)) if call is not None else []
    if len(given) == 1:
        return Patch(edit.path, *given[0].span(1), f"torch.{edit.value}")
    return _literal(document, edit, document.places[edit.pointer].value)


def _said_elsewhere(document: Document, edit: Edit) -> str:
    """Why an argument is not changed whose place in the script is not its value."""
    name = dotted(edit.pointer)
    if name == _CHECKPOINTING and document.start is not None and document.start.accepted.arguments_class == LOOP:
        return "the script trains in a loop of its own: call `model.gradient_checkpointing_enable()` in it"
    at = document.start.values.written_at.get(name, "") if document.start is not None else ""
    return f"`{name}` is given at {at}" if at else f"the script computes `{name}`"


def _value(document: Document, edit: Edit) -> Any:
    value = document.value
    for part in edit.pointer:
        value = value[part]
    return value


def _written(value: Any, near: str) -> str:
    """A value as Python writes it, with the quotes that stand in the code `near`."""
    text = repr(list(value) if isinstance(value, tuple) else value)
    is_plain = '"' not in text and "\\" not in text
    return text.replace("'", '"') if is_plain and near.count('"') > near.count("'") else text


def _from_json(text: str) -> str:
    """Code as it is in a string of JSON."""
    try:
        found = json.loads(f'"{text}"')
    except ValueError:
        raise CannotEdit("the value reaches over several lines of a notebook") from None
    assert isinstance(found, str)
    return found


def _to_json(code: str) -> str:
    return json.dumps(code)[1:-1]


def _at_declared_key(document: Document, edit: Edit, key: str) -> Patch:
    """The key that settings name for an argument, whether the configuration file has it or not."""
    file = _config_file(document)
    return _edited_file(file, edit._replace(pointer=(*path_of(key, file.value), *edit.pointer[1:])))


def _config_file(document: Document) -> Document:
    (file,) = load(document.text.encode("utf-8", "surrogatepass"), document.path)[:1]
    return file


def _edited_file(file: Document, edit: Edit) -> Patch:
    if file.syntax == "toml":
        from memlint.fixes.edits import toml as toml_edits  # few files are TOML

        return toml_edits.place(file, edit)
    return json_edits.place(file, edit) if file.syntax == "json" else yaml_edits.place(file, edit)


def _in_config(document: Document, edit: Edit, span: Span) -> Patch:
    """A scalar of the configuration file that the script loads, by its place there."""
    whole = document.places[()].value
    if (span.start, span.end) == (whole.start, whole.end):
        raise CannotEdit("the configuration file does not say it")
    file = _config_file(document)
    pointer = next((path for path, at in file.places.items() if at.value == span), None)
    if pointer is None:
        raise CannotEdit("the value has no place of its own in the configuration file")
    return _edited_file(file, edit._replace(pointer=pointer))


def _added(document: Document, edit: Edit) -> Patch:
    """A new argument at the end of the call that makes the training arguments, or a new key of a dictionary."""
    key = edit.pointer[0]
    if len(edit.pointer) > 1 and edit.pointer[:-1] in document.places:
        return _added_key(document, edit, document.places[edit.pointer[:-1]].value)
    start = document.start
    if key in _OF_LOADING and start is not None and start.values.loading_call is not None:
        argument = _of_loading_call(document, edit)
        return _added_argument(document, edit.path, start.values.loading_call, argument)
    if len(edit.pointer) != 1 or start is None or () not in start.values.sources:
        raise CannotEdit(_taken_elsewhere(document))
    first, last = start.values.sources[()]
    call, is_accepted = document.text[first:last], key in start.accepted.accepts
    if is_accepted and key == "deepspeed" and document.path.endswith(".ipynb"):
        raise CannotEdit("a launcher starts DeepSpeed, and a notebook has none")
    argument = f"{key}={_written(edit.value, call)}" if is_accepted else _of_named_model(document, edit, call)
    return _added_argument(document, edit.path, (first, last), argument)


def _of_loading_call(document: Document, edit: Edit) -> str:
    """A new argument of `from_pretrained`. It takes `torch_dtype` in every release, `dtype` since 4.56 (transformers
    5.24 modeling_utils.py, from_pretrained)."""
    if edit.pointer != _DTYPE:
        return f"{edit.pointer[0]}={_written(edit.value, document.text)}"
    if _IMPORTS_TORCH.search(document.text) is None:
        raise CannotEdit("the script does not import torch, whose dtypes `from_pretrained` takes")
    return f"torch_dtype=torch.{edit.value}"


def _of_named_model(document: Document, edit: Edit, call: str) -> str:
    """A new argument of the training arguments for a model that TRL loads by its name. It takes dtypes as words (trl
    0.19.0 trainer/grpo_trainer.py and 0.27.0 trainer/utils.py, create_model_from_path)."""
    key = edit.pointer[0]
    start = document.start
    is_named = start is not None and not start.program.loads_model and "model_init_kwargs" in start.accepted.accepts
    if key not in _OF_LOADING or not is_named:
        raise CannotEdit(f"the training arguments have no `{key}`")
    if "model_init_kwargs" in call:
        raise CannotEdit(f"`model_init_kwargs` of the training arguments is to say `{key}`")
    return f"model_init_kwargs={_written({key: edit.value}, call)}"


def _added_argument(document: Document, path: str, call: tuple[int, int], argument: str) -> Patch:
    """`argument` at the end of the call at these characters."""
    first, last = call
    text = document.text
    if text[last - 1 : last] != ")":
        raise CannotEdit("the call does not end with a bracket")
    if document.path.endswith(".ipynb"):
        return _added_in_cell(document, path, last - 1, argument)
    end = _before_comments(text, first, trimmed(text, first, last - 1))
    if _has_comment(text, end):
        raise CannotEdit("a comment stands behind the last argument")
    return Patch(path, end, end, _beside(document, first, end, argument, ",("))


def _added_key(document: Document, edit: Edit, span: Span) -> Patch:
    """A new key at the end of a dictionary that stands in the script as it is."""
    text = document.text
    if not document.path.endswith(".py") or not _is_dictionary(text[span.start : span.end]):
        raise CannotEdit(_taken_elsewhere(document))
    end = trimmed(text, span.start, span.end - 1)
    if _has_comment(text, end):
        raise CannotEdit("a comment stands behind the last key")
    written = _written({edit.pointer[-1]: edit.value}, text[span.start : end])[1:-1]
    return Patch(edit.path, end, end, _beside(document, span.start, end, written, ",{"))


def _is_dictionary(code: str) -> bool:
    try:
        return isinstance(ast.parse(code, mode="eval").body, ast.Dict)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


def _taken_elsewhere(document: Document) -> str:
    """Why no argument is added in a script without a call that takes it: a command in another file may give them."""
    given = document.start.values.written_at.values() if document.start is not None else ()
    scripts = (place.rpartition(":")[0] for place in given if ":" in place)
    command = next((name for name in scripts if name.endswith(SHELL)), "")
    return f"the command in {command} gives the arguments" if command else "no call in this file takes it"


def _added_in_cell(document: Document, path: str, bracket: int, argument: str) -> Patch:
    """A new argument right before the bracket that ends the call, in that line's string of the notebook's JSON."""
    book = notebook.read(load(document.text.encode("utf-8", "surrogatepass"), document.path, syntax="json")[0])
    before = "" if isinstance(book, Problem) else book.code_before(bracket).rstrip()
    if not before or "#" in before.rpartition("\n")[2]:
        raise CannotEdit("a comment stands behind the last argument")
    lead = {"(": "", ",": " "}.get(before[-1], ", ")
    return Patch(path, bracket, bracket, _to_json(f"{lead}{argument}"))


def _before_comments(text: str, first: int, end: int) -> int:
    """Where the last argument ends, in front of lines that are comments alone, such as arguments that are not used."""
    while end > first and text[line_start(text, end) : end].lstrip().startswith("#"):
        end = trimmed(text, first, line_start(text, end))
    return end


def _has_comment(text: str, end: int) -> bool:
    """Whether what looks like the last argument is a comment."""
    return "#" in text[line_start(text, end) : end]


def _beside(document: Document, first: int, end: int, new: str, brackets: str) -> str:
    """A new argument or key behind those that end at `end`: on a line of its own and with a comma where they have one.
    `brackets`: what needs no comma behind it."""
    text = document.text
    before = text[end - 1]
    comma = "" if before in brackets else ","
    own_lines = "\n" in text[first:end] and line_start(text, end) > first
    if not own_lines:
        return f"{comma} {new}" if comma or before == "," else new
    return f"{comma}{document.newline}{indent_of(text, end)}{new}{',' if before == ',' else ''}"
