"""Which framework releases make a difference to a run's estimate.

Most figures do not depend on a release. Two stacks that give one model the same figures are one key of the cache of
estimates. tests/memory/unknown/test_releases.py holds these bounds against the estimator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture
from memlint.memory.families.traits import Version
from memlint.run import Run, Stack, Unknown

# From these releases on nothing in this folder changes for any model. `_last_transformers_change` has transformers.
_LAST_CHANGES: Mapping[str, Version] = {"torch": (2, 0), "trl": (0, 19), "deepspeed": (0, 19), "accelerate": (1, 11)}
_LOADS_IN_ORDER: Version = (5, 4)  # what is quantised on the fly (card/interval.py, _loads_faster_than_it_quantises)
_CACHES_APART: Version = (5, 24)  # keys and values of image-text models (segments/of_model.py, _held_by_cache)
_HOOKS_OUTSIDE: Version = (5, 23)  # of FSDP2's wider outputs (segments/of_model.py, _inputs_of_parts)
_MIXERS_THAT_SETTLED = ("attention", "mla")


def canonical_stack(run: Run) -> Stack:
    """The run's stack, with () for each release that gives its memory the same figures as the newest one.

    Equal stacks are one object, so that what is cached by identity (identity_cache.py) is found again.
    """
    return _canonical(run.stack, _last_transformers_change(run))


_CANONICAL: dict[Stack, Stack] = {}


@lru_cache(maxsize=256)
def _canonical(stack: Stack, transformers: Version | None) -> Stack:
    changes: dict[str, Any] = {"framework_version": ()}
    settled = _LAST_CHANGES if transformers is None else {**_LAST_CHANGES, "transformers": transformers}
    for name, release in settled.items():
        version = getattr(stack, name)
        if not version or version >= release:
            changes[name] = ()
    if "transformers" in changes:  # PEFT's releases differ for stacked experts alone (adapters.py, `converted`)
        changes["peft"] = ()
    found = stack._replace(**changes)
    return _CANONICAL.setdefault(found, found)


def _last_transformers_change(run: Run) -> Version | None:
    """The release of transformers from which on nothing changes for the models of this run.

    Of attention and dense MLPs alone it is 4.52, or the last that a family's row names; of weights that are quantised
    5.4 at least, of outputs that FSDP2 makes wider 5.23, of image-text models that cache keys 5.24. None where any
    release may matter: state-space layers, experts and adapters that PEFT moves to them, other models that nobody
    names, and every model under Unsloth (unsloth.py, `_loss_in_chunks`).
    """
    others = run.method.extra_models
    if run.stack.use_unsloth or isinstance(others, Unknown):
        return None
    settled = [_last_change(model.architecture) for model in (run.model, *others)]
    if run.model.quantization.method != "none":
        settled.append(_LOADS_IN_ORDER)
    if run.parallelism.engine == "fsdp" and run.parallelism.fsdp.output_dtype:
        settled.append(_HOOKS_OUTSIDE)
    return None if None in settled else max(release for release in settled if release is not None)


def _last_change(architecture: Architecture | Unknown) -> Version | None:
    family = families.of(architecture)
    if not isinstance(architecture, Architecture) or family.experts.peft_stacked_targets:
        return None
    layers = architecture.layer_types
    plain = all(
        one.attention.kind in _MIXERS_THAT_SETTLED and not (one.mlp.experts or one.parallel_ssm) for one in layers
    )
    caches = architecture.towers and not family.vision.passes_use_cache
    last = max((4, 52), families.last_change(architecture.family), _CACHES_APART if caches else ())
    return last if plain else None
