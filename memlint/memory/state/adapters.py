"""The tensors that an adapter method (LoRA, OFT, ...) adds to a base weight."""

from __future__ import annotations

import memlint.memory.families.lookup as families
from memlint._record import NamedTuple
from memlint.architectures.model import Weight
from memlint.run import Method, Run

LORA_KINDS = ("lora", "dora")
PER_WEIGHT_KINDS = ("lora", "dora", "oft", "boft", "ia3")


class AdapterTensor(NamedTuple):
    """One tensor that an adapter adds to a base weight: the suffix of its name, and its shape."""

    suffix: str
    shape: tuple[int, ...]


def with_stacked_experts(run: Run) -> Method:
    """The method as PEFT applies it to stacked experts: target modules that name an expert projection become target
    parameters (peft 0.21.2 utils/transformers_weight_conversion.py:333)."""
    method, architecture = run.method, run.model.architecture
    expert_names = families.of(architecture).experts.peft_stacked_targets
    holds_linears = () < run.stack.transformers < (5,) or () < run.stack.peft < (0, 19)
    if not expert_names or method.kind not in LORA_KINDS or holds_linears:
        return method
    all_linear = method.targets == ("all-linear",)
    if all_linear and method.targets_linear_only:
        return method
    targeted = [
        name for name in expert_names if all_linear or any(target.split(".")[-1] == name for target in method.targets)
    ]
    if not targeted:
        return method
    parameters = tuple(_STACKED[name] for name in targeted)
    return method._replace(
        exclude_modules=method.exclude_modules + tuple(targeted),
        target_parameters=method.target_parameters + parameters,
        rank_pattern=method.rank_pattern + _ranks_of_fused(method, parameters),
    )


def _ranks_of_fused(method: Method, parameters: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The rank pattern for parameters that fuse two projections: their adapter has twice the rank (peft 0.21.2
    utils/transformers_weight_conversion.py:460). A parameter that `target_parameters` names itself has the plain rank.
    """
    return tuple((name, 2 * method.rank) for name in dict.fromkeys(parameters) if parameters.count(name) > 1)


_STACKED = {
    "w1": "gate_up_proj",
    "w3": "gate_up_proj",
    "w2": "down_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
    "down_proj": "down_proj",
    "gate": "gate.weight",
}


# The linear layers of an expert before transformers 5 where a family's row names none: gate, up, down.
_EXPERT_LINEARS = ("gate_proj", "up_proj", "down_proj")
_OF_STACK = {"gate_up_proj": slice(0, 2), "up_proj": slice(1, 2), "down_proj": slice(2, 3)}


def branches_of_expert_linears(
    weight: Weight, method: Method, names: tuple[str, ...], layer_index: int
) -> tuple[AdapterTensor, ...]:
    """The adapters of all experts of a layer where each expert is a module of linear layers, which PEFT adapts like any
    other (transformers 4.57 models/qwen3_moe/modeling_qwen3_moe.py:198). `weight`: the experts' matrices in one stack,
    (experts, outputs, inputs); `names`: of an expert's linear layers, gate, up, down."""
    prefix, _, stack = weight.name.rpartition(".")
    parts = (names or _EXPERT_LINEARS)[_OF_STACK.get(stack, slice(0))]
    modules = [f"{prefix}.0.{name}" for name in parts]
    adapted = [module for module in modules if _is_linear_target(module, method, layer_index)]
    if not adapted or method.kind not in LORA_KINDS:
        return ()
    experts, rows, columns = weight.shape
    rank = rank_of(adapted[0], method) * experts
    outputs = rows * len(adapted) // len(parts)
    return AdapterTensor("lora_A", (rank * len(adapted), columns)), AdapterTensor("lora_B", (outputs, rank))


def _is_linear_target(module: str, method: Method, layer_index: int) -> bool:
    if method.layers_to_transform and layer_index not in method.layers_to_transform:
        return False
    if method.exclude_modules and matches(module, method.exclude_modules):
        return False
    return method.targets == ("all-linear",) or matches(module, method.targets)


# Routers that are nn.Linear in transformers 5.23 (AFMoE, DBRX, Gemma 4, HunYuan, JetMoE, LongCat): "all-linear" takes
# them. Others are parameters of a class of their own, which it leaves alone.
LINEAR_ROUTERS = ("router.gate", "router.layer", "router.classifier", "router.proj", "gate.wg")


def is_target(weight: Weight, method: Method, layer_index: int) -> bool:
    """Whether the method puts an adapter on this base weight.

    Targets are matched as PEFT matches them: the module's name equals a target or ends with ".target"
    (peft 0.21.2 tuners/tuners_utils.py, check_target_module_exists); "all-linear" is every linear layer
    but the head.
    """
    if weight.kind in ("experts", "router") and any(weight.name.endswith(name) for name in method.target_parameters):
        return True
    if weight.kind not in ("linear", "head", "embedding", "conv", "router") or not weight.name.endswith("weight"):
        return False
    module = weight.name[: -len(".weight")]
    takes_all = method.targets == ("all-linear",)
    if takes_all and weight.kind != "linear" and not (weight.kind == "router" and matches(module, LINEAR_ROUTERS)):
        return False
    return _is_linear_target(module, method, layer_index)


def matches(module: str, names: tuple[str, ...]) -> bool:
    """Whether the module's dotted name is one of `names` or ends with one of them."""
    dotted = "." + module
    return any(dotted.endswith("." + name) for name in names)


def rank_of(module: str, method: Method) -> int:
    """The adapter's rank for one module: from `rank_pattern`, else the general one."""
    for pattern, rank in method.rank_pattern:
        if matches(module, (pattern,)):
            return rank
    return method.rank


def branches(weight: Weight, method: Method) -> tuple[AdapterTensor, ...]:
    """The adapter tensors of one base weight; empty if the method adds none."""
    if len(weight.shape) < 2:
        return ()
    if method.kind in LORA_KINDS:
        return _lora(weight, method)
    if method.kind in ("oft", "boft"):
        return _oft(weight, method)
    if method.kind == "ia3":
        return (AdapterTensor("ia3_l", (weight.shape[0],)),)
    return ()


def _lora(weight: Weight, method: Method) -> tuple[AdapterTensor, ...]:
    outputs, inputs = weight.shape[0], weight.shape[1]
    rank = rank_of(weight.name.removesuffix(".weight"), method)
    if weight.kind == "experts":  # target_parameters: one pair for every expert, peft 0.21.2 tuners/lora/layer.py
        experts, rows, columns = weight.shape[0], weight.shape[1], weight.shape[2]
        return AdapterTensor("lora_A", (rank * experts, columns)), AdapterTensor("lora_B", (rows, rank * experts))
    pair = AdapterTensor("lora_A", (rank, inputs)), AdapterTensor("lora_B", (outputs, rank))
    if method.use_dora or method.kind == "dora":
        return pair + (AdapterTensor("lora_magnitude_vector", (outputs,)),)
    return pair


def _oft(weight: Weight, method: Method) -> tuple[AdapterTensor, ...]:
    """One skew-symmetric block per slice of the input: r blocks of n x (n - 1) / 2 numbers."""
    inputs = weight.shape[1]
    block = method.oft_block_size
    if block:
        block = _nearest_divisor(inputs, block)
    elif method.rank:
        block = inputs // _nearest_divisor(inputs, method.rank)
    if not block:
        return ()
    return (AdapterTensor("oft_R", (inputs // block, block * (block - 1) // 2)),)


def _nearest_divisor(inputs: int, target: int) -> int:
    """The divisor of `inputs` that is nearest to `target`, the smaller one of two (peft 0.21.2 tuners/oft/layer.py,
    adjust_oft_parameters)."""
    lower = higher = max(1, min(target, inputs))
    while inputs % higher:
        higher += 1
    while inputs % lower:
        lower -= 1
    return lower if target - lower <= higher - target else higher
