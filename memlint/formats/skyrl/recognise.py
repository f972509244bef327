"""Whether a document is SkyRL's: by the policy in the section `trainer`, beside a generator."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "skyrl"
SCHEMA = "skyrl.json"
_OF_POLICY = frozenset(("model", "optimizer_config", "fsdp_config", "megatron_config", "deepspeed_config"))


def recognise(document: Document) -> Recognition:
    value = document.value
    if not isinstance(value, dict):
        return Recognition("no")
    if document.start is not None and document.start.format == NAME:
        return Recognition("certain", reason="a command of SkyRL's trainer")
    trainer = value.get("trainer")
    policy = trainer.get("policy") if isinstance(trainer, dict) else None
    if isinstance(policy, dict) and not _OF_POLICY.isdisjoint(policy) and isinstance(value.get("generator"), dict):
        return Recognition("certain", reason="the sections `trainer.policy` and `generator` are SkyRL's")
    return Recognition("no")
