"""The machines that a Python program asks for: Modal's of a function's decorator, Slurm's of submitit's executor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memlint.formats.fields import as_int
from memlint.repository.scripts import slurm
from memlint.repository.scripts.in_python.texts import ProgramFile
from memlint.source.python.follow import asks_modal
from memlint.source.python.values import Known, Made, Value

_MODAL_GPU = re.compile(r"([^:]+)(?::(\d{1,2}))?")
# Cards that Modal may replace with a larger one: `A100` is one of 40 GB or more, `B200+` is a B200 or a B300
# (modal.com/docs/guide/gpu, "Automatic upgrades").
_MODAL_CARDS = {"A100": "A100-40GB", "H100!": "H100", "B200+": "B200"}

_SLURM_NAMES = {"tasks_per_node": "ntasks_per_node"}  # submitit's names for options of Slurm


def modal_job(call: Made, file: ProgramFile) -> slurm.Job | None:
    """The machine of `@app.function(gpu="H100:4")`; one without a GPU where it asks for none. None for other calls."""
    if not asks_modal(call):
        return None
    gpu = call.arguments.get("gpu")
    asked = _MODAL_GPU.fullmatch(str(gpu.value)) if isinstance(gpu, Known) and gpu.value else None
    if asked is None:
        return _of_class(gpu)
    count = int(asked[2] or 1)
    name = asked[1].upper() if asked[1].lower() != "any" else ""
    return slurm.Job(1, count, 1, 1, **placed_card(_MODAL_CARDS.get(name, name), gpu, file))


def _of_class(gpu: Value | None) -> slurm.Job:
    """`gpu=modal.gpu.H100(count=4)`, as until modal 1.0."""
    if not isinstance(gpu, Made) or not gpu.name.startswith("modal.gpu."):
        return slurm.Job()
    count, size = gpu.arguments.get("count"), gpu.arguments.get("size")
    kind = f"A100-{size.value if isinstance(size, Known) else '40GB'}" if gpu.last == "A100" else gpu.last
    place = gpu.source.span
    number = as_int(count.value) if isinstance(count, Known) else None
    return slurm.Job(1, 1 if count is None else number or 0, 1, 1, kind, place.start if place is not None else 0)


def submitit_job(call: Made, file: ProgramFile) -> slurm.Job | None:
    """What `executor.update_parameters(nodes=2, gpus_per_node=8, slurm_constraint="h100")` asks for, with Slurm's own
    options under `slurm_` (submitit 1.5.3 auto/auto.py, slurm/slurm.py). None for other calls."""
    if call.last != "update_parameters" or not call.name.startswith("submitit."):
        return None
    given = {key.removeprefix("slurm_"): one for key, one in call.arguments.items()}
    said = [(key, one.value) for key, one in given.items() if isinstance(one, Known) and one.value is not None]
    found = slurm.step(f"--{_SLURM_NAMES.get(key, key).replace('_', '-')}={value}" for key, value in said)
    named = next((one for one in given.values() if found.card and found.card in str(getattr(one, "value", ""))), None)
    return found._replace(**placed_card(found.card, named, file))


def placed_card(name: str, value: Value | None, file: ProgramFile) -> Mapping[str, Any]:
    """The card `name`, at the value that says it, as fields of a `Job`; no card where it is said in another file."""
    source = value.source if isinstance(value, Known) else None
    if not name or source is None or source.span is None or source.path != file.inner:
        return {"card": "", "card_at": 0}
    return {"card": name, "card_at": source.span.start}
