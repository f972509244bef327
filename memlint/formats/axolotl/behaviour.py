"""What Axolotl's own code does to memory, and to a change of the config, whatever the config says."""

from __future__ import annotations

from memlint.formats.fields import Behaviour

_RING = "Axolotl 0.19 utils/schemas/validation.py:1785, check_context_parallel_size"
# Its degrees have to make up all processes, and the others of plain data parallelism are no degree beside it.
_EVERY_RANK = (
    "Axolotl 0.19 monkeypatch/accelerate/parallelism_config.py:95; accelerate 1.13.0 parallelism_config.py:336"
)
BEHAVIOUR = (
    Behaviour("planning.single_gpu_launch", "", "Axolotl 0.19 utils/trainer.py:564 sets the process group up itself"),
    Behaviour("planning.liger_kernels_apart", True, "Axolotl 0.19 integrations/liger/args.py:35-59, a key for each"),
    Behaviour("planning.freezes_projector_apart", False, "Axolotl 0.19 utils/freeze.py:29, freeze_mm_modules"),
    Behaviour("planning.sequence_sharing", "parallelism.context_parallel_size", _RING),
    Behaviour("planning.sequence_sharing_needs", "the ring-flash-attn package must be installed", _RING),
    Behaviour("planning.all_share_sequences", True, _EVERY_RANK),
    Behaviour("planning.stores_4_bits_in_half", "always", "Axolotl 0.19 loaders/model.py, _set_quantization_config"),
    Behaviour("planning.pins_transformers", True, "Axolotl 0.19 pyproject.toml: transformers==5.16.1"),
)
