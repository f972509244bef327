"""A run that goes on with the model that an earlier run of the same script trained and saved."""

from __future__ import annotations

from collections.abc import Iterable

from memlint.formats.trainer.python.python_run import PythonRun
from memlint.formats.trainer.python.trainer_call import argument_values, arguments_of
from memlint.source.python.values import Known, Made, Undetermined, Value

_NAME = "model_name_or_path"
_SAVED_AS = ("output_dir", "hub_model_id")


def going_on(runs: Iterable[tuple[Made, PythonRun]]) -> list[PythonRun]:
    """The runs of these trainers, each with the model that it loads under the name of an earlier one's folder:
    `SFTConfig("out")` and then `from_pretrained("out")`, or `from_pretrained("owner/out")` of what went to the Hub.

    What an earlier run with an adapter saved is left as it is: the adapter, not the model.
    """
    found: list[PythonRun] = []
    saved: dict[str, Value] = {}
    for trainer, run in runs:
        name = _last_part(run.keys.get(_NAME))
        if name in saved:
            run = run._replace(keys={**run.keys, _NAME: saved[name]})
        found.append(run)
        if not any(key.startswith("lora_") for key in run.keys):
            trained = run.keys.get(_NAME, Undetermined("the script trains it before"))
            saved.update(dict.fromkeys(_names_of(trainer) - {""}, trained))
    return found


def _names_of(trainer: Made) -> set[str]:
    """The names under which a trainer saves its model."""
    arguments = arguments_of(trainer)
    given = argument_values(arguments)
    first = arguments.positional[:1] if isinstance(arguments, Made) else ()
    return {_last_part(value) for value in (*first, *map(given.get, _SAVED_AS))}


def _last_part(value: Value | None) -> str:
    """The last part of a path or of a name on the Hub; "" of what is not known."""
    text = value.value if isinstance(value, Known) else None
    return text.rstrip("/").rpartition("/")[2] if isinstance(text, str) else ""
