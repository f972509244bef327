"""The learning rates that TRL's configurations have where nothing is said; TrainingArguments have 5e-5.

Read in trl 0.9.6, 0.11.4, 0.12.0, 0.13.0, 0.14.0, 0.18.0, 0.21.0, 0.23.0, 0.24.0, 0.29.0 and in the repository at
1.10.0.dev0: `learning_rate` of trainer/<stage>_config.py (trl/experimental/<stage>/ for what has moved there).
"""

from __future__ import annotations

from collections.abc import Mapping

from memlint.formats.trainer.config import TrainerConfig
from memlint.formats.training_arguments import Version

_KEY = "learning_rate"
# Stage -> the releases from which on a rate is the default, oldest first.
_RATES: Mapping[str, tuple[tuple[Version, float], ...]] = {
    **dict.fromkeys(("sft", "gkd"), (((0, 12), 2e-5),)),  # GKDConfig is an SFTConfig
    "kto": (((0, 11), 5e-7), ((0, 12), 1e-6)),
    **dict.fromkeys(("dpo", "orpo", "cpo", "simpo"), (((0, 12), 1e-6),)),
    "grpo": (((0,), 1e-6),),
    "rm": (((0, 24), 1e-4),),
}


def with_default_rate(config: TrainerConfig) -> TrainerConfig:
    """The configuration with TRL's own default of the learning rate, where its release has one for the stage."""
    rates = [rate for since, rate in _RATES.get(config.stage, ()) if config.trl >= since]
    if not rates:
        return config
    args = config.args
    defaults = {**args.defaults, _KEY: rates[-1]}
    values = {**args.values, _KEY: rates[-1]} if args.written(_KEY) is None else args.values
    return config._replace(args=args._replace(defaults=defaults, values=values))
