"""The named terms of an estimate, in bytes: rules compare them, and `memlint explain` shows them."""

from __future__ import annotations

import memlint.memory.card.interval as interval
from memlint.architectures.model import Architecture
from memlint.memory.autograd.walk import Walk
from memlint.memory.loss.shape import FUSED_LOSSES, loss_kind
from memlint.memory.values import ModelState, Phase, Unit
from memlint.run import Run


def details_of(run: Run, state: ModelState, walk: Walk, peak: Phase) -> dict[str, int]:
    """Named terms for rules and for `explain`, bytes. `activations_bytes` and `logits_bytes` are the peak's, as in the
    table. `kept_activations_bytes`: saved between forward and backward. `whole_logits_bytes`: one fp32 tensor of all
    logits."""
    return {
        "weights_bytes": state.weights,
        "optimizer_state_bytes": state.optimizer_states,
        "resident_bytes": state.weights + state.optimizer_states,
        "gradients_bytes": state.gradients_at_step,
        "activations_bytes": peak.components["activations"],
        "logits_bytes": peak.components["logits"],
        "kept_activations_bytes": walk.saved_activations,
        "whole_logits_bytes": 0 if loss_kind(run) in FUSED_LOSSES else walk.logits,
        "attention_scores_bytes": walk.scores if run.attention.implementation == "eager" else 0,
        "optimizer_step_temporary_bytes": state.step_temporaries,
    }


def image_details(run: Run, units: tuple[Unit, ...]) -> dict[str, int]:
    """The number of images per sample, and of their tokens, that the central figure and the high end assume."""
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    if tower is None or not isinstance(run.sequence.length, int):
        return {}
    import memlint.memory.vision.images as images

    most = images.encoded_tokens(run, tower, run.sequence.length)
    seen = interval.with_images_counted(run, units)
    each, counted = images.tokens_of_image(seen, tower, run.sequence.length), interval.images_counted(run, units)
    return {"images": counted, "image_tokens": counted * each, "most_image_tokens": most, "tokens_per_image": each}


def host_details(run: Run, units: tuple[Unit, ...]) -> dict[str, int]:
    """Bytes of host memory while the model is loaded and saved, where an engine gathers it there."""
    if run.parallelism.engine not in ("fsdp", "deepspeed"):
        return {}
    import memlint.memory.host as host

    found = {"host_loading_bytes": host.loading(run, units), "host_saving_bytes": host.saving(run, units)}
    return {name: size for name, size in found.items() if size}
