"""What LLaMA-Factory's own code does to memory, whatever the config says."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

BEHAVIOUR = (
    Behaviour("checkpointing.skips_frozen_layers", True, "LLaMA-Factory 0.9.5 model/model_utils/checkpointing.py:98"),
    Behaviour("checkpointing.unsloth_offloads", True, "LLaMA-Factory 0.9.5 model/model_utils/unsloth.py:77"),
    Behaviour("method.reward_head", "value", "LLaMA-Factory 0.9.5 train/rm/workflow.py:46"),
    Behaviour("method.targets_linear_only", True, "LLaMA-Factory 0.9.5 model/model_utils/misc.py:28"),
    Behaviour("optimizer.projects_head", False, "LLaMA-Factory 0.9.5 train/trainer_utils.py:186-197"),
    Behaviour("sequence.always_has_images", True, "LLaMA-Factory 0.9.5 data/collator.py"),
    Behaviour(
        "planning.stores_4_bits_in_half", "always", "LLaMA-Factory 0.9.5 model/model_utils/quantization.py:178-190"
    ),
    Behaviour("planning.checkpoint_offload", "unsloth", "LLaMA-Factory 0.9.5 model/model_utils/checkpointing.py:43"),
    # Refuses DeepSpeed without torchrun, which its launcher takes for one GPU only when told to (launcher.py:61).
    Behaviour(
        "planning.single_gpu_launch", "start it with FORCE_TORCHRUN=1", "LLaMA-Factory 0.9.5 hparams/parser.py:353"
    ),
)
