"""Whether a document is EasyR1's: by the section `worker`, with the roles that verl has in `actor_rollout_ref`."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "easyr1"
SCHEMA = "easyr1.json"
_ROLES = ("actor", "rollout", "ref")
_OTHERS = ("data", "algorithm", "trainer")


def recognise(document: Document) -> Recognition:
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if document.start is not None and document.start.format == NAME:
        return Recognition("certain", reason="a command of EasyR1's trainer")
    worker = value.get("worker")
    has_roles = isinstance(worker, dict) and any(isinstance(worker.get(role), dict) for role in _ROLES)
    if has_roles and any(isinstance(value.get(name), dict) for name in _OTHERS):
        return Recognition("certain", reason="the section `worker` is EasyR1's")
    return Recognition("no")
