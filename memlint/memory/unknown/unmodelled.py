"""What is not modelled: such a run is UNKNOWN, with the reason, rather than wrong."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture
from memlint.memory.state.model_state import OVER_FSDP2
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import Unit
from memlint.run import UNKNOWN, Run

_MODELLED_MIXERS = ("attention", "mla", "gated_delta", "conv", "mamba2", "none")
# Adapters that only a PEFT configuration can name. Their parameters and optimizer states are counted.
_UNMODELLED_METHODS = ("boft", "ia3", "prefix", "adalora", "loha", "lokr", "vera")
_TRANSFORMER_ENGINE = ("te", "te_mxfp8")
_FP8_ENGINES = ("none", "", "torchao", *_TRANSFORMER_ENGINE)


def refuse_unplaceable(run: Run) -> None:
    """Raises `MissingValue` where not even the model state is modelled."""
    if run.optimizer.badam_mode == "ratio":
        raise MissingValue("optimizer.badam_mode", "BAdam's sparse gradients (`badam_mode: ratio`) are not modelled")
    if run.stack.use_ktransformers and run.purpose != "train":
        raise MissingValue("stack.use_ktransformers", "KTransformers computes experts on the host: not modelled")


def refuse_unmodelled(run: Run, units: tuple[Unit, ...]) -> None:
    """Raises `MissingValue` where the run's activations are not modelled."""
    if run.stack.use_unsloth:
        import memlint.memory.unsloth as unsloth

        unsloth.refuse(run)
    if run.method.stage == "xpo" and run.method.kind == "full" and run.parallelism.engine not in ("single", "ddp"):
        engine = run.parallelism.engine
        raise MissingValue("method.stage", f"what {engine} keeps of gradients of XPO's two forwards is not modelled")
    if run.stack.unmodelled:
        raise MissingValue("stack.unmodelled", f"memlint does not model this: {run.stack.unmodelled}")
    if run.parallelism.engine in OVER_FSDP2:
        raise MissingValue("parallelism.engine", f"what layers keep under {run.parallelism.engine} is not modelled")
    _refuse_fp8(run)
    if run.method.kind in _UNMODELLED_METHODS:
        raise MissingValue("method.kind", f"activations under {run.method.kind} are not modelled")
    architecture: Architecture = run.model.architecture
    if architecture.towers:
        import memlint.memory.vision.towers as towers

        towers.refuse_unmodelled(architecture, units)
    if architecture.unmodelled:
        raise MissingValue("model.architecture", architecture.unmodelled)
    if run.rollout.sleep_level is UNKNOWN and run.rollout.generator == "vllm_colocate":
        raise MissingValue("rollout.sleep_level", "whether the engine on the same card sleeps while the model trains")
    if run.stack.expert_kernel and families.of(architecture).experts.clamps_gate:
        raise MissingValue("stack.expert_kernel", f"{run.stack.expert_kernel} runs {architecture.family} in other code")
    for layer in architecture.layer_types:
        if layer.attention.kind not in _MODELLED_MIXERS:
            reason = f"activations of `{layer.attention.kind}` layers ({architecture.family}) are not modelled"
            raise MissingValue("model.architecture", reason)


def _refuse_fp8(run: Run) -> None:
    """Raises `MissingValue` where it is not modelled what an engine keeps in fp8. Transformer Engine's layers replace
    the head as well, and with it the weight that it shared with the embedding (accelerate 1.15
    utils/transformer_engine.py:26); a weight that is gathered for a layer, they keep whole."""
    engine = run.precision.fp8
    if engine not in _FP8_ENGINES:
        raise MissingValue("precision.fp8", f"the copies that {engine} keeps in fp8 are not modelled")
    if engine not in _TRANSFORMER_ENGINE:
        return
    if run.model.architecture.tied_embeddings:
        raise MissingValue("precision.fp8", "Transformer Engine's head has a weight apart from the embedding's")
    if run.parallelism.engine == "fsdp" or run.parallelism.zero.stage == 3:
        raise MissingValue(
            "precision.fp8", "what Transformer Engine keeps of weights that are gathered is not modelled"
        )
