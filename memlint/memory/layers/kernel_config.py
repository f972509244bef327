"""How the step computes: what every block needs beside its weights."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.families.lookup import DEFAULT
from memlint.memory.families.traits import Family
from memlint.memory.parameter_roles import Linear


class KernelConfig(NamedTuple):
    """`autocast_width`: bytes of autocast's dtype, 0 without autocast.

    `in_kernels`: count what kernels allocate for themselves and cast what FlashAttention casts (a real CUDA
    run); False gives what a simulated step on fake tensors shows.
    """

    autocast_width: int = 0
    attention: str = "sdpa"
    in_kernels: bool = True
    mask: bool = False
    bfloat16: bool = True
    liger: bool = False  # norms and rotary embedding are kernels, Liger's or Unsloth's
    experts: str = "grouped_mm"  # grouped_mm, copied (one by one out of their stack), loop (linears)
    unpacked: int = 0  # bytes of an element of stacked experts that are unpacked to run; 0 where they are not packed
    rope_kept: bool = True
    delta: str = "torch"  # the gated delta rule: torch, loop (transformers before 5.17), fla
    scan: str = "torch"  # Mamba 2: torch, kernel
    fused_adapters: tuple[str, ...] = ()  # groups of projections: qkv, o, mlp (fused_adapter.py)
    norms_in_place: bool = True  # Liger's norms write their gradient over the arriving one
    softmax_as_given: bool = False  # eager attention's softmax names no dtype, in this release
    gated_kernel: bool = True  # with `liger`: the product in a gated MLP is a kernel as well
    adds_apart: bool = False  # what an adapter adds is a tensor before it is added (Unsloth until 2025.3)
    expands_keys: bool = False  # fused attention reads keys and values copied to all heads (Unsloth through xformers)
    bias: bool = False  # scaled dot-product attention gets a mask, and its kernel keeps it as numbers


class LayerContext:
    """A tape, the kernels, and the layer's projections by part.

    `family`: what the layer's code does; `returned`: attention weights that the layer returns beside its output;
    `inner_norm`: the weight of norms inside of attention and MLP; `waiting`: projections that came of another's call.
    """

    __slots__ = ("cos", "family", "inner_norm", "kernels", "linears", "returned", "sin", "tape", "waiting")

    def __init__(
        self,
        tape: Tape,
        kernels: KernelConfig,
        linears: dict[str, Linear],
        cos: Value,
        sin: Value,
        family: Family = DEFAULT,
    ) -> None:
        self.family = family
        self.returned: list[Value] = []
        self.inner_norm: Parameter | None = None
        self.waiting: dict[str, Value] = {}
        self.tape = tape
        self.kernels = kernels
        self.linears = linears
        self.cos = cos
        self.sin = sin
