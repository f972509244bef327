"""How many GPUs each engine has, and how they share a model: `allocation_mode: sglang:d4t2+fsdp:d8`, and since 1.0.3
the `backend` of each engine, `fsdp:d8` (AReaL 0.3.4 to 2.0.0 areal/api/alloc_mode.py, ALLOCATION_GRAMMAR).

`+` gives the next engine GPUs of its own, `|` those of the one before. Until 0.3.4 a dot may stand for the colon.
"""

from __future__ import annotations

import re

from memlint._record import NamedTuple

WRITING = ("sglang", "vllm")
# As many letters with a number each: data, tensor, pipeline, context, expert.
_DIMENSION = re.compile(r"([dtpce])([1-9]\d*)")
_COMPONENT = re.compile(
    r"(?:(?P<backend>sglang|vllm|fsdp|megatron|archon)(?:\[(?P<name>[A-Za-z_]\w*)\])?[:.])?"
    r"(?:\(?attn:(?P<attention>(?:[cdtp][1-9]\d*)+)\|ffn:(?P<experts>(?:[detp][1-9]\d*)+)\)?"
    r"|(?P<sizes>(?:[pdtce][1-9]\d*)+))"
)
_EVALUATION = re.compile(r"\+(?:eval|cpu)$")  # until 0.5.1: an engine alone, for a program that only evaluates
_LONGEST = 300


class EngineGpus(NamedTuple):
    """One engine's GPUs. `backend`: "" where the text leaves it to AReaL. `beside`: it is on the GPUs of the engine
    before it. `expert_tensor`: GPUs that share each expert."""

    backend: str = ""
    name: str = ""
    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    beside: bool = False

    @property
    def world(self) -> int:
        return self.data * self.tensor * self.pipeline * self.context

    @property
    def writes(self) -> bool:
        """Whether it is an engine that writes completions."""
        return self.backend in WRITING

    @property
    def engine(self) -> str:
        """The engine that trains. Until 1.0.2 AReaL takes Megatron-LM where only it can have the sizes, else FSDP
        (0.3.4 areal/api/alloc_mode.py, TrainingParallelism)."""
        return self.backend or ("megatron" if self.pipeline > 1 or self.expert > 1 else "fsdp")


def allocations(text: str) -> tuple[EngineGpus, ...] | None:
    """The engines of a text, in its order; None where AReaL's grammar does not take it."""
    rest = "".join(text.split()) if len(text) <= _LONGEST else ""
    rest = _EVALUATION.sub("", rest)
    found: list[EngineGpus] = []
    beside = False
    while True:
        match = _COMPONENT.match(rest)
        one = _of_match(match, beside) if match is not None else None
        if match is None or one is None:
            return None
        found.append(one)
        rest = rest[match.end() :]
        if not rest:
            return tuple(found)
        if rest[0] not in "+|":
            return None
        beside, rest = rest[0] == "|", rest[1:]


def _of_match(match: re.Match[str], beside: bool) -> EngineGpus | None:
    sizes = _sizes(match["sizes"] or match["attention"])
    found = EngineGpus(
        match["backend"] or "",
        match["name"] or "",
        sizes.get("d", 1),
        sizes.get("t", 1),
        sizes.get("p", 1),
        sizes.get("c", 1),
        sizes.get("e", 1),
        beside=beside,
    )
    if found.writes and (match["sizes"] is None or set(sizes) & {"c", "e"}):
        return None
    experts = _sizes(match["experts"] or "")
    if experts and not _are_the_same_gpus(found, experts):
        return None
    return found._replace(expert=experts["e"], expert_tensor=experts.get("t", 1)) if "e" in experts else found


def _are_the_same_gpus(attention: EngineGpus, experts: dict[str, int]) -> bool:
    """Whether the experts' sizes can be those of the attention's GPUs; without `d` theirs is what is left of them."""
    shared = experts.get("e", 1) * experts.get("t", 1) * attention.pipeline
    if experts.get("p", attention.pipeline) != attention.pipeline or attention.world % shared:
        return False
    return experts.get("d", attention.world // shared) * shared == attention.world


def _sizes(text: str) -> dict[str, int]:
    """Each letter's number; of several the last one counts."""
    return {letter: int(number) for letter, number in _DIMENSION.findall(text)}
