"""What AutoTrain's code does whatever the file says."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

ALWAYS = (
    Behaviour("planning.entails", (), "autotrain-advanced 0.8.36: what follows is read of the changed file"),
    Behaviour("planning.fsdp_by_launch_file", "", "autotrain-advanced 0.8.36 commands.py: it starts accelerate itself"),
    Behaviour("planning.starts_fsdp", 0, "autotrain-advanced 0.8.36 commands.py: ddp or ZeRO-3 alone"),
    Behaviour("planning.lora_dropout", 0.05, "autotrain-advanced 0.8.36 trainers/clm/params.py, lora_dropout"),
    Behaviour("evaluation.keeps_logits", False, "autotrain-advanced 0.8.36 trainers/clm: no metrics"),
)
