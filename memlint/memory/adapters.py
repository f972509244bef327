"""What an adapter method adds to one base weight."""

from __future__ import annotations

from typing import NamedTuple

from memlint.architectures.model import Weight
from memlint.run import Method, Run

LORA_KINDS = ("lora", "dora")
PER_WEIGHT_KINDS = ("lora", "dora", "oft", "boft", "ia3")


class Branch(NamedTuple):
    """One adapter tensor beside a base weight."""

    suffix: str
    shape: tuple[int, ...]


def is_target(weight: Weight, method: Method, layer_index: int) -> bool:
    """Whether the method puts an adapter on this base weight.

    Targets are matched as PEFT matches them: the module's name equals a target or ends with ".target"
    (peft 0.21.2 tuners/tuners_utils.py, check_target_module_exists); "all-linear" is every linear layer
    but the head.
    """
    if method.target_parameters and weight.kind == "experts":
        return any(weight.name == target or weight.name.endswith(target) for target in method.target_parameters)
    if weight.kind not in ("linear", "head", "embedding", "conv", "router") or not weight.name.endswith("weight"):
        return False
    if method.layers_to_transform and layer_index not in method.layers_to_transform:
        return False
    module = weight.name[: -len(".weight")]
    if method.exclude_modules and matches(module, method.exclude_modules):
        return False
    if method.targets == ("all-linear",):
        return weight.kind == "linear"
    return matches(module, method.targets)


def matches(module: str, names: tuple[str, ...]) -> bool:
    """Whether the module's dotted name is one of `names` or ends with one of them."""
    dotted = "." + module
    return any(dotted.endswith("." + name) for name in names)


def rank_of(module: str, method: Method) -> int:
    """The rank in force for one module (`rank_pattern` first)."""
    for pattern, rank in method.rank_pattern:
        if matches(module, (pattern,)):
            return rank
    return method.rank


def branches(weight: Weight, run: Run) -> tuple[Branch, ...]:
    """The adapter tensors on one base weight; empty when its method adds none there."""
    method = run.method
    if len(weight.shape) < 2:
        return ()
    if method.kind in LORA_KINDS:
        return _lora(weight, method)
    if method.kind in ("oft", "boft"):
        return _oft(weight, method)
    if method.kind == "ia3":
        return (Branch("ia3_l", (weight.shape[0],)),)
    return ()


def _lora(weight: Weight, method: Method) -> tuple[Branch, ...]:
    outputs, inputs = weight.shape[0], weight.shape[1]
    rank = rank_of(weight.name[: -len(".weight")], method)
    if weight.kind == "experts":  # target_parameters: one pair for every expert, peft 0.21.2 tuners/lora/layer.py
        experts, rows, columns = weight.shape[0], weight.shape[1], weight.shape[2]
        return Branch("lora_A", (rank * experts, columns)), Branch("lora_B", (rows, rank * experts))
    pair = Branch("lora_A", (rank, inputs)), Branch("lora_B", (outputs, rank))
    if method.use_dora or method.kind == "dora":
        return pair + (Branch("lora_magnitude_vector", (outputs,)),)
    return pair


def _oft(weight: Weight, method: Method) -> tuple[Branch, ...]:
    """One skew-symmetric block per slice of the input: r blocks of n x (n - 1) / 2 numbers."""
    inputs = weight.shape[1]
    block = method.oft_block_size or (inputs // method.rank if method.rank else 0)
    if not block:
        return ()
    return (Branch("oft_R", (inputs // block, block * (block - 1) // 2)),)
