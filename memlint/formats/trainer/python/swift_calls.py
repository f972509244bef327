"""Runs that a script starts through ms-swift's Python functions: `sft_main(SftArguments(model=..., max_length=2048))`.

Their keys are ms-swift's own, so that its format reads them (ms-swift 2.6.1 llm/__init__.py and 4.6.0
pipelines/__init__.py: `sft_main`, `pt_main` and `rlhf_main` take an object of arguments or a list of flags).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlint.formats.trainer.python.python_run import PythonRun
from memlint.formats.trainer.python.trainer_call import argument_keys
from memlint.source.document import StartedProgram
from memlint.source.python.values import External, Items, Known, Made, Value, source_of

FORMAT = "swift"
_TASKS = {"sft_main": "sft", "pt_main": "pt", "rlhf_main": "rlhf"}


def swift_runs(calls: Iterable[Made]) -> list[PythonRun]:
    """The run of each such call whose arguments are seen."""
    return list(_runs(calls))


def _runs(calls: Iterable[Made]) -> Iterator[PythonRun]:
    for made in calls:
        task = _TASKS.get(made.last, "") if made.name.startswith("swift.") else ""
        given = next(iter((*made.positional, *made.arguments.values())), None)
        if not task or given is None:
            continue
        keys = _of_flags(given) if isinstance(given, Items) else {**argument_keys(given)[1], **_model_type(given)}
        if keys:
            call = given.source.span if isinstance(given, Made) else None
            yield PythonRun("", "", keys, made.source, StartedProgram(task=task), call, format=FORMAT)


def _of_flags(words: Items) -> dict[str, Value]:
    """`["--model", "a/b", "--max_length", "2048"]` as keys; what stands in no list of known words is not seen."""
    keys: dict[str, Value] = {}
    name = ""
    for word in words.values:
        text = word.value if isinstance(word, Known) else None
        if isinstance(text, str) and text.startswith("--"):
            name, _, value = text[2:].partition("=")
            keys[name] = Known(value or True, source_of(word))
        elif name:
            keys[name] = word
            name = ""
    return {} if words.is_open else keys


def _model_type(given: Value) -> dict[str, Value]:
    """`model_type=ModelType.qwen2_7b_instruct` of release 2 as its word, `qwen2-7b-instruct` (2.6.1
    llm/utils/model.py)."""
    if not isinstance(given, Made):
        return {}
    value = given.arguments.get("model_type")
    if not isinstance(value, External) or ".ModelType." not in value.name:
        return {}
    return {"model_type": Known(value.last.replace("_", "-"), given.source)}
