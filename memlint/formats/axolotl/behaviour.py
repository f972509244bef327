"""What Axolotl's own code does to memory, and to a change of the config, whatever the config says."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

BEHAVIOUR = (
    Behaviour("planning.single_gpu_launch", "", "Axolotl 0.19 utils/trainer.py:564 sets the process group up itself"),
    Behaviour("planning.liger_kernels_apart", True, "Axolotl 0.19 integrations/liger/args.py:35-59, a key for each"),
    Behaviour("planning.freezes_projector_apart", False, "Axolotl 0.19 utils/freeze.py:29, freeze_mm_modules"),
    Behaviour("planning.pins_transformers", True, "Axolotl 0.19 pyproject.toml: transformers==5.16.1"),
)
