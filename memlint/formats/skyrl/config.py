"""SkyRL's values: overrides over the file of a copy, over SkyRL's own defaults.

Until skyrl-train 0.4 and skyrl 0.1 Hydra composes a YAML (`skyrl_train/config/ppo_base_config.yaml`), in which the keys
of the inference engine stand in `generator` itself. Since then dataclasses declare them, in a section of their own
(`skyrl/train/config/config.py`).
"""

from __future__ import annotations

from memlint.formats.base import Context
from memlint.formats.fields import root, value_at
from memlint.formats.keys import Keys
from memlint.formats.skyrl.releases import TAKES
from memlint.formats.trainer_names import with_taken_releases
from memlint.formats.verl.composed import ABOVE, Composed, first_file
from memlint.formats.verl.config import VerlConfig
from memlint.source.document import Document

SOURCE = "SkyRL 0.3.0"
MODEL = "trainer.policy.model.path"
ENGINE = "generator.inference_engine"
# What stands in `generator` under another name in the file of older releases (0.1.0 skyrl/train/config/legacy.py).
_RENAMED = {
    f"{ENGINE}.num_engines": "generator.num_inference_engines",
    f"{ENGINE}.tensor_parallel_size": "generator.inference_engine_tensor_parallel_size",
    f"{ENGINE}.pipeline_parallel_size": "generator.inference_engine_pipeline_parallel_size",
    f"{ENGINE}.expert_parallel_size": "generator.inference_engine_expert_parallel_size",
    f"{ENGINE}.data_parallel_size": "generator.inference_engine_data_parallel_size",
    "trainer.remove_microbatch_padding": "trainer.use_sample_packing",
}
_OF_OLDER = ("num_inference_engines", "inference_engine_tensor_parallel_size", "gpu_memory_utilization", "backend")
_FILES = tuple(
    f"{above}{folder}config/ppo_base_config.yaml"
    for above in ABOVE
    for folder in ("skyrl_train/", "skyrl-train/skyrl_train/", "skyrl/train/")
)


def older_name(key: str) -> str:
    """What the releases that Hydra configures call a key."""
    moved = f"generator.{key.removeprefix(f'{ENGINE}.')}" if key.startswith(f"{ENGINE}.") else key
    return _RENAMED.get(key, moved)


def is_older(document: Document) -> bool:
    """Whether a command or a file is for a release whose keys of the engine stand in `generator` itself: as the module
    that it starts says, or its keys."""
    entry = document.start.program.entry if document.start is not None else ""
    if entry.startswith("skyrl_train."):
        return True
    generator = value_at(document.value, ("generator",))
    return isinstance(generator, dict) and any(key in generator for key in _OF_OLDER)


class SkyRLConfig(VerlConfig):
    """As verl's, with SkyRL's keys."""

    __slots__ = ()
    source = SOURCE
    model_keys = (MODEL, MODEL)
    decisive = frozenset((MODEL,))

    @property
    def is_older(self) -> bool:
        return is_older(self.own.document)

    def is_open(self, key: str) -> bool:
        """Whether nobody says the value of a key whose default older releases changed: the number of GPUs is 4 until
        0.3, and 1 in 0.4 (skyrl_train/config/ppo_base_config.yaml)."""
        return self.is_older and self.written(key) is None


def config_of(document: Document, keys: Keys, context: Context) -> SkyRLConfig:
    files = _files(document, context)
    taken = context if is_older(document) else with_taken_releases(context, "skyrl", TAKES)
    return SkyRLConfig(root(document), files, keys, taken, False)


def _files(document: Document, context: Context) -> Composed:
    """The file of a copy of SkyRL that the overrides of a command lie over."""
    if document.start is None or not is_older(document):
        return Composed()
    return Composed(
        base=first_file(_FILES, document.path, context, lambda value: isinstance(value.get("trainer"), dict))
    )


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of SkyRL, whose classes may have keys of their own."""
    return any(context.repository.own_functions(folder) for folder in ("skyrl_train", "skyrl/train"))
