"""NeMo-RL's values: a command's overrides over the file that it names, over the files that this one inherits from."""

from __future__ import annotations

import operator
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memlint.formats.base import Context, MissingFile
from memlint.formats.fields import Section, as_number, interpolated, root, value_at
from memlint.formats.keys import Keys
from memlint.formats.nemo_rl.recognise import ALGORITHMS
from memlint.formats.section_keys import SectionKeys, path_of
from memlint.formats.verl.composed import ABOVE, Composed, first_file, tails
from memlint.formats.verl.config import VerlConfig, follow, resolved
from memlint.run import UNKNOWN
from memlint.source.document import Document

SOURCE = "NeMo-RL 0.7.0"
MODEL = "policy.model_name"
_MOST_FILES = 8  # that inherit from each other, and references within references
# The program's own file, where a command names none (0.7.0 examples/run_*.py).
_OWN_FILES = {
    "grpo": "grpo_math_1B.yaml",
    "grpo_math": "grpo_math_1B.yaml",
    "grpo_rm": "grpo_rm_1B.yaml",
    "vlm_grpo": "vlm_grpo_3B.yaml",
    "vlm_sft": "sft_vlm_3B.yaml",
    "ppo": "ppo_math_1B.yaml",
    "distillation": "distillation_math.yaml",
}
_PROGRAM = re.compile(r"run_(\w+)\.py$")
_OF_A_COPY = "_default_grpo_save_state"  # 0.7.0 nemo_rl/algorithms/grpo.py: in a package of any name
_ARITHMETIC = re.compile(r"\$\{(mul|add|div|max):(.*)\}", re.DOTALL)


class NemoConfig(VerlConfig):
    """As verl's, with NeMo-RL's keys and any number of files below. null takes the place of what a file inherits."""

    __slots__ = ("below",)
    source = SOURCE
    model_keys = (MODEL, MODEL)
    decisive = frozenset(
        {
            *(MODEL, "policy.train_micro_batch_size", "policy.logprob_batch_size", "policy.max_total_sequence_length"),
            *("policy.precision", "policy.dtensor_cfg.enabled", "policy.dtensor_cfg._v2", "policy.optimizer.name"),
            *("policy.dtensor_cfg.activation_checkpointing", "policy.dtensor_cfg.cpu_offload"),
            *("policy.dtensor_cfg.tensor_parallel_size", "policy.dtensor_cfg.context_parallel_size"),
            *("policy.megatron_cfg.enabled", "policy.sequence_packing.enabled", "policy.dynamic_batching.enabled"),
            *("policy.generation.vllm_cfg.gpu_memory_utilization", "policy.generation.colocated.enabled"),
            *("cluster.gpus_per_node", "cluster.num_nodes"),
        }
    )

    def __init__(self, own: Section, below: tuple[Section, ...], missing: str, keys: Keys, context: Context) -> None:
        super().__init__(own, Composed(missing=missing), keys, context, False)
        self.below = below
        sections = (own, *below)
        self._layers = tuple(SectionKeys(resolved(one, sections, _follow), keys, SOURCE) for one in sections)

    def _layer(self, key: str) -> SectionKeys | None:
        for layer in self._layers:
            if layer.written(key) is not None:
                return layer
            if _ends_at(layer.section.value, path_of(key)):
                return None
        return None

    @property
    def names_file(self) -> str:  # type: ignore[override]  # a word of the class there
        """What names the file that is missing."""
        return "`--config`" if self.own.document.start is not None else "`defaults`"

    def _is_older(self, key: str) -> bool:
        return False

    @property
    def stated(self) -> tuple[int, ...]:
        """NeMo-RL's release, where somebody states it."""
        return tuple(self.context.versions.get("nemo_rl", ()))

    def value(self, key: str) -> Any:
        """What the first file that has it gives at any key; UNKNOWN for a placeholder, None where none has it."""
        path = path_of(key)
        for layer in self._layers:
            found = value_at(layer.section.value, path)
            if found is not None:
                return UNKNOWN if found == "???" or interpolated(found) else found
            if _ends_at(layer.section.value, path):
                break
        return None

    def is_overridden(self, keys: Iterable[str]) -> bool:
        """Whether a command of the repository gives one of the keys another value than the file."""
        is_file = self.own.document.start is None
        return is_file and any(map(self.context.repository.is_overridden, keys))

    def is_absent(self, key: str) -> bool:
        """Whether no file has the key, not even with null."""
        *above, name = path_of(key)
        return not any(name in section for section in self.mappings(*above))

    def has_section(self, *path: str) -> bool:
        """Whether a file has a mapping at `path`."""
        return any(True for _ in self.mappings(*path))

    def mappings(self, *path: str) -> Iterator[Mapping[str, Any]]:
        """The mappings that the files have at `path`, the run's own first."""
        found = (value_at(layer.section.value, path) for layer in self._layers)
        return (one for one in found if isinstance(one, dict))

    def algorithm(self) -> str:
        """What trains: as the command's program says, else the first file that has a section of an algorithm."""
        start = self.own.document.start
        match = _PROGRAM.search(start.program.entry) if start is not None else None
        named = next((one for one in ALGORITHMS if match is not None and one in match[1]), "")
        sections = (layer.section.value for layer in self._layers)
        return named or next((one for value in sections for one in ALGORITHMS if isinstance(value.get(one), dict)), "")

    @property
    def engine(self) -> str:
        """megatron, dtensor, or "" where neither is switched on."""
        if self.flag("policy.megatron_cfg.enabled"):
            return "megatron"
        return "dtensor" if self.flag("policy.dtensor_cfg.enabled") else ""

    @property
    def is_v2(self) -> bool:
        """Whether NeMo Automodel makes the model (nemo_rl/models/policy/lm_policy.py: `_v2`, false where it is not
        given)."""
        return self.flag("policy.dtensor_cfg._v2")

    @property
    def names(self) -> bool:
        """Whether a file is missing, so that a key may have a value that nobody sees."""
        return bool(self._missing)


def _ends_at(value: Any, path: tuple[str, ...]) -> bool:
    """Whether a file ends the search for the key: it has null at it, or a section above that replaces the inherited
    one whole (nemo_rl/utils/config.py, merge_with_override)."""
    for step in path:
        if not isinstance(value, dict):
            return False
        if value.get("_override_") is True:
            return True
        if step in value and value[step] is None:
            return True
        value = value.get(step)
    return False


def config_of(document: Document, keys: Keys, context: Context) -> NemoConfig:
    below: list[Section] = []
    missing = ""
    for named in (_named(document, context),) if document.start is not None else ():
        if isinstance(named, str):
            missing = named
        else:
            below.append(named)
    for section in _inherited(below[0] if below else root(document), context):
        if isinstance(section, str):
            missing = missing or section
        else:
            below.append(section)
    return NemoConfig(root(document), tuple(below), missing, keys, context)


def _named(document: Document, context: Context) -> Section | str:
    """The file that a command gives as `--config`, from the folder that it runs in, else the program's own; its name
    where the repository does not have it."""
    name = document.value.get("config")
    start = document.start
    entry = start.program.entry if start is not None else ""
    if not isinstance(name, str):
        match = _PROGRAM.search(entry)
        own = _OWN_FILES.get(match[1] if match else "", f"{match[1] if match else 'grpo'}.yaml")
        name = posixpath.join(posixpath.dirname(entry.lstrip("./")), "configs", own)
    names = (f"{above}{tail}" for tail in tails(name) for above in ABOVE)
    return first_file(names, document.path, context) or name


def _inherited(section: Section, context: Context, depth: int = _MOST_FILES) -> Iterator[Section | str]:
    """The files that `defaults` names, the last one first, each before those that it inherits from itself; the name of
    one that the repository does not have (nemo_rl/utils/config.py, load_config_with_inheritance)."""
    given = section.value.get("defaults")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    for name in reversed(names):
        if not isinstance(name, str) or not depth:
            continue
        found = context.read(name if name.startswith("/") else f"./{name}", section.document.path)
        if isinstance(found, MissingFile) or not isinstance(found.value, dict):
            yield name
            continue
        parent = root(found, "companion")
        yield parent
        yield from _inherited(parent, context, depth - 1)


def _follow(value: Any, above: tuple[str, ...], sections: tuple[Section, ...], depth: int = _MOST_FILES) -> Any:
    """As OmegaConf follows references, with NeMo-RL's own resolvers (nemo_rl/utils/config.py,
    register_omegaconf_resolvers)."""
    found = follow(value, above, sections)
    match = _ARITHMETIC.fullmatch(found.strip()) if isinstance(found, str) and len(found) < 200 else None
    if match is None or not depth:
        return found
    terms = [as_number(_follow(term.strip(), above, sections, depth - 1)) for term in _terms(match[2])]
    numbers = [term for term in terms if term is not None]
    if len(terms) != 2 or len(numbers) != 2 or (match[1] == "div" and not numbers[1]):
        return found
    return _RESOLVERS[match[1]](*numbers)


_RESOLVERS: Mapping[str, Callable[[float, float], float]] = {
    "mul": operator.mul,
    "add": operator.add,
    "div": operator.truediv,
    "max": max,
}


def _terms(text: str) -> list[str]:
    """The arguments of a resolver: parts between commas outside of braces."""
    found, depth = [""], 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of NeMo-RL, whose programs may check something else."""
    functions = context.repository.own_functions
    return bool(functions("nemo_rl/algorithms")) or _OF_A_COPY in functions("algorithms")
