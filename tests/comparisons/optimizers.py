"""States and step temporaries of real optimizer classes, counted on the CPU."""

from __future__ import annotations

from memlint.memory.state.storage import numel


def closed_form(name: str, shapes: list[list[int]], dtype: str, fields: dict[str, object]) -> tuple[int, int]:
    """The table's answer for linear layers and vectors of these shapes."""
    from memlint.memory.state import optimizers as optimizer
    from memlint.memory.values import Tensor, Unit
    from memlint.run import Optimizer, Run, replace

    width = {"float32": 4, "bfloat16": 2}[dtype]
    tensors = tuple(
        Tensor(
            "x.weight",
            numel(tuple(s)),
            tuple(s),
            "linear" if len(s) == 2 else "norm",
            True,
            dtype,
            numel(tuple(s)) * width,
        )
        for s in shapes
    )
    run = replace(Run("test", "x", optimizer=Optimizer(name)), fields)
    found = optimizer.memory(run, (Unit("layer", tensors),))
    return found.states + found.managed, found.step_temporaries
