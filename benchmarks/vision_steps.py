"""The closed form of an image-text model beside a simulated step that really reads images.

    python benchmarks/vision_steps.py

Towers are small and of fixed resolution, on fake tensors; every token of the sequence but a quarter is an image's.
The towers and projectors are frozen or train. The estimate's interval goes from a step without images to one in
which every token is an image's; a tower that trains has no figure, and its simulated peak shows what it costs.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import memlint.simulation.step as simulated_step
from benchmarks.families import Step, run_of
from memlint.memory.estimate import estimate
from memlint.run import replace
from memlint.simulation import simulate
from tests.architectures.small import SMALL

TEXT = {**SMALL, "hidden_size": 384, "intermediate_size": 768, "num_hidden_layers": 6, "vocab_size": 32000}
TOWER = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
CLIP = {"model_type": "clip_vision_model", **TOWER, "patch_size": 14, "image_size": 224}
SIGLIP = {"model_type": "siglip_vision_model", **TOWER, "patch_size": 14, "image_size": 224, "vision_use_head": False}
MIB = 1 << 20
FLAGS = ("method.freeze_vision_tower", "method.freeze_multi_modal_projector")
SQUARE = {"image_size": [224, 224], "patch_size": [14, 14]}
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    "llava": (
        {"model_type": "llava", "text_config": {"model_type": "llama", **TEXT}, "vision_config": CLIP},
        256,
    ),
    "gemma3": (
        {
            "model_type": "gemma3",
            "mm_tokens_per_image": 64,
            "text_config": {"model_type": "gemma3_text", **TEXT, "head_dim": 32},
            "vision_config": SIGLIP,
        },
        64,
    ),
    "internvl": (
        {
            "model_type": "internvl",
            "image_seq_length": 64,
            "text_config": {"model_type": "qwen2", **TEXT},
            "vision_config": {
                "model_type": "internvl_vision",
                **TOWER,
                "image_size": [224, 224],
                "patch_size": [14, 14],
            },
        },
        64,
    ),
}


def simulated(run: Any, config: dict[str, Any], images: int) -> Any:
    """A step whose inputs hold `images` images for each sequence."""
    plain = simulated_step._inputs

    def with_images(model: Any, settings: Any) -> dict[str, torch.Tensor]:
        inputs = plain(model, settings)
        count = images * settings.micro_batch_size
        inputs["pixel_values"] = torch.zeros((count, 3, 224, 224), dtype=torch.float32)
        inner = next(module for module in model.modules() if hasattr(module, "get_placeholder_mask"))
        # the count of placeholders depends on data, which fake tensors do not have
        inner.get_placeholder_mask = lambda ids, inputs_embeds, **_: torch.ones_like(inputs_embeds, dtype=torch.bool)
        if run.model.architecture.family == "gemma3":
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        return inputs

    checkpoint = simulated_step._checkpoint

    def as_llamafactory(model: Any, settings: Any) -> None:
        """LLaMA-Factory asks for gradients at trainable layers alone (model_utils/checkpointing.py:98); transformers'
        own hook on a tower's patch embedding makes frozen layers keep their inputs."""
        checkpoint(model, settings)
        for name, module in model.named_modules():
            if name.endswith(("patch_embedding", "patch_embeddings")):
                module._forward_hooks.clear()

    patched = {"_inputs": with_images, "_checkpoint": as_llamafactory}
    with mock.patch.multiple(simulated_step, **patched):
        return simulate(run, config)


def row(name: str, step: Step, frozen: bool) -> str:
    """One line of the table."""
    config, tokens = MODELS[name]
    run = replace(run_of(config, step), dict.fromkeys(FLAGS, frozen))
    real = simulated(run, config, 768 // tokens)
    found = estimate(run)
    label = f"{name:<9} {step.name:<24} {'frozen' if frozen else 'trains':<7} {real.peak / MIB:8.1f}"
    if found.allocated_bytes is None or found.allocated_high_bytes is None:
        return f"{label} no figure: {found.unknown[0].reason}"
    low, high = found.allocated_low_bytes or 0, found.allocated_high_bytes
    return f"{label} {low / MIB:8.1f} {high / MIB:8.1f}  {low / real.peak - 1:+.2%} {high / real.peak - 1:+.2%}"


def main() -> int:
    warnings.simplefilter("ignore")
    print("model     step                     tower   simulated   lowest  highest  (MiB)")
    for name in MODELS:
        for method in ("full", "lora"):
            for checkpointing in (False, True):
                for frozen in (True, False):
                    print(row(name, Step(method, checkpointing, "sdpa"), frozen), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
