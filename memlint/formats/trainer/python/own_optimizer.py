"""The optimizer that a script gives its trainer, or that a trainer class of its own makes.

transformers 5.23 trainer.py: `optimizers=(optimizer, scheduler)` is taken instead of what `optim` names, and
`create_optimizer` is called where none is given (`create_optimizer_and_scheduler`).
"""

from __future__ import annotations

from memlint.formats.trainer.python.model import Keys
from memlint.formats.trainer.python.optimizers import is_optimizer_name, optimizer_keys
from memlint.source.python.members import OBJECT, attribute
from memlint.source.python.values import Instance, Items, Known, Made, PythonFunction, Undetermined, Value

MAKES_OPTIMIZER = "the script makes its own optimizer"


def own_optimizer(trainer: Made) -> Keys:
    """`optim` where the script chooses the optimizer itself; nothing where the arguments do."""
    given = trainer.arguments.get("optimizers")
    if given is not None:
        return _given(given, trainer)
    made = trainer.attributes.get(OBJECT)
    method = attribute(made, "create_optimizer") if isinstance(made, Instance) else None
    return _made_by(method) if isinstance(method, PythonFunction) else {}


def _given(given: Value, trainer: Made) -> Keys:
    """Of `optimizers=(optimizer, None)`."""
    first = given.values[0] if isinstance(given, Items) and given.values else None
    if isinstance(first, Known) and first.value is None:
        return {}
    if isinstance(first, Made) and is_optimizer_name(first.last):
        return _keys(first)
    return {"optim": Undetermined(f"{MAKES_OPTIMIZER}, which memlint does not see", trainer.source)}


def _made_by(method: PythonFunction) -> Keys:
    """Of `create_optimizer`; nothing where it takes the class from the arguments, as LLaVA's trainer does."""
    names = method.calls
    makers = {name for name in names if is_optimizer_name(name.rpartition(".")[2])}
    defers = "super().create_optimizer" in names
    if any(name.endswith("get_optimizer_cls_and_kwargs") for name in names) or (defers and not makers):
        return {}
    if len(makers) == 1 and not defers:
        return _keys(Made(makers.pop()))
    return {"optim": Undetermined(f"{MAKES_OPTIMIZER} in `create_optimizer`")}


def _keys(optimizer: Made) -> Keys:
    keys = optimizer_keys([optimizer])
    name = keys["optim"]
    if isinstance(name, Undetermined):
        keys["optim"] = Undetermined(f"{MAKES_OPTIMIZER}: {name.reason}", name.source)
    return keys
