"""What Oumi's code does whatever the file says."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

ALWAYS = (
    Behaviour("planning.entails", (), "oumi 0.9: what follows from a change is read of the changed file"),
    Behaviour("planning.fsdp_by_launch_file", "", "oumi 0.9 core/configs/params/fsdp_params.py: a section of its own"),
    Behaviour(
        "planning.fsdp_keys",
        "`fsdp: {{enable_fsdp: true, auto_wrap_policy: TRANSFORMER_BASED_WRAP, cpu_offload: {offloads}}}`",
        "oumi 0.9 core/configs/params/fsdp_params.py",
    ),
    Behaviour("planning.lora_dropout", 0.0, "oumi 0.9 core/configs/params/peft_params.py, lora_dropout"),
    Behaviour("evaluation.keeps_logits", False, "oumi 0.9 training_params.py: no metrics unless named"),
)
