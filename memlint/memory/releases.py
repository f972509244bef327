"""Which framework releases a run's estimate tells apart.

Most figures do not depend on a release at all: two stacks that the estimator cannot tell apart for this model have one
estimate, which is then worked out once. tests/memory/test_releases.py holds these bounds against the estimator.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from memlint.architectures.model import Architecture
from memlint.memory.adapters import FUSED_EXPERTS
from memlint.run import Run, Stack

# From these releases on, nothing in this folder changes for a model of attention and dense MLPs alone.
_SETTLED = {"transformers": (4, 52), "torch": (1, 13), "trl": (0, 19), "deepspeed": (0, 19), "accelerate": (1, 11)}
# Later ones count for these: for their attention (estimate.py, `with_effective_attention`), for their loss (loss.py,
# `_MASKED_COPY`), for adapters of their experts; and for every model under Unsloth (unsloth.py, `_loss_in_chunks`).
_LATER = frozenset(("gemma2", "vaultgemma", "gemma3", "shieldgemma2")) | FUSED_EXPERTS.keys()
_PLAIN = ("attention", "mla")


def canonical_stack(run: Run) -> Stack:
    """The stack with every release that makes no difference to this run's memory left out: the newest.

    Equal ones are one object, so that what is found by identity (recent.py) is found again.
    """
    models = (run.model, *run.method.extra_models)
    plain = all(_is_plain(model.architecture) for model in models)
    return _settled(run.stack, plain and not run.stack.use_unsloth)


_same: dict[Stack, Stack] = {}


@lru_cache(maxsize=256)
def _settled(stack: Stack, plain: bool) -> Stack:
    changes: dict[str, Any] = {"framework_version": ()}
    for name, settled in _SETTLED.items():
        version = getattr(stack, name)
        if (not version or version >= settled) and (name != "transformers" or plain):
            changes[name] = ()
    if "transformers" in changes:  # PEFT's releases differ for stacked experts alone (adapters.py, `converted`)
        changes["peft"] = ()
    found = stack._replace(**changes)
    return _same.setdefault(found, found)


def _is_plain(architecture: object) -> bool:
    if not isinstance(architecture, Architecture) or architecture.family in _LATER:
        return False
    layers = architecture.layer_types
    return all(one.attention.kind in _PLAIN and not (one.mlp.experts or one.parallel_ssm) for one in layers)
