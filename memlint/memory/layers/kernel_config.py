"""Which kernels a step runs, and what each part of a layer needs to be recorded."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.memory.autograd.tape import Parameter, Tape, Value
from memlint.memory.families.lookup import DEFAULT
from memlint.memory.families.traits import Family
from memlint.memory.state.parameter_roles import Linear

# Attention whose kernels never write the scores: queries, keys, values, the output and a log-sum-exp are kept.
FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4", "flash", "flex_attention", "sdpa", "xformers")


class KernelConfig(NamedTuple):
    """How the operations of a step are computed. Equal configurations give equal recordings.

    `autocast_width`: bytes of an element in autocast's dtype, 0 without autocast. `kernel_memory`: count what CUDA
    kernels allocate for themselves and cast what FlashAttention casts; False gives what a simulated step on fake
    tensors shows.
    """

    autocast_width: int = 0
    attention: str = "sdpa"
    kernel_memory: bool = True
    mask: bool = False
    bfloat16: bool = True
    liger: bool = False  # norms and rotary embedding are kernels, Liger's or Unsloth's
    experts: str = "grouped_mm"  # or copied (one by one out of their stack), loop (linears), scattermoe, host
    moves_attention: bool = False  # GPUs share a sequence: the result of attention is moved before it is projected
    ring: int = 1  # GPUs between which keys and values go round
    mixes_halves: bool = False  # scores in one half precision meet experts in the other: their product is fp32
    keeps_stacks: bool = False  # autograd keeps the gathered stacks of experts that their products read
    dequantized_width: int = 0  # bytes of an element of dequantised stacked experts; 0 where they are not quantised
    delta_rule: str = "torch"  # the gated delta rule: torch, loop (transformers before 5.17), fla
    scan: str = "torch"  # Mamba 2: torch, kernel
    fused_adapters: tuple[str, ...] = ()  # groups of projections: qkv, o, mlp (fused_adapter.py)
    norms_in_place: bool = True  # Liger's norms write their gradient over the incoming one
    softmax_keeps_dtype: bool = False  # in this release eager attention's softmax computes in the dtype of the scores
    returns_weights: bool = False  # in this release layers return the weights of eager attention
    gated_kernel: bool = True  # with `liger`: the product in a gated MLP is a kernel too
    adapter_output_is_separate: bool = (
        False  # what an adapter adds is a tensor before it is added (Unsloth until 2025.3)
    )
    expands_kv_heads: bool = False  # keys and values are copied to all heads for fused attention (Unsloth, xformers)
    float8: str = ""  # what multiplies the layers' linear weights in fp8: torchao, te, te_rowwise, te_mxfp8
    keeps_linear_inputs: bool = False  # autograd keeps the input of a frozen linear layer too (ZeRO-3's own function)
    mask_width: int = 0  # bytes of an element of eager attention's mask; 0 = that of the residual stream
    caches_fused_parts: bool = False  # keys and values of a fused projection are copied into a cache
    unpacks_with: int = 0  # bytes an element that torch operators allocate to dequantise a 4-bit weight; 0: a kernel
    bias: bool = False  # scaled dot-product attention gets a mask, which its kernel saves as an additive bias
    softmax_keeps_input: bool = False  # the backward of a softmax takes its input as well as its result

    def tape(self, grad: bool = True) -> Tape:
        """A new recording of operations that are computed so. `grad`: whether autograd records."""
        return Tape(grad, in_place=self.kernel_memory, keeps_linear_inputs=self.keeps_linear_inputs)


class LayerContext:
    """What the recording of one layer uses: the tape, the kernels, and the layer's projections by part.

    `family`: what transformers' code of the model family does. `returned_weights`: attention weights that the layer
    returns with its output. `held`: what its variables hold until it returns. `inner_norm`: the weight of norms inside
    of attention and MLP. `computed_ahead`: results of projections that were computed together with another one.
    `scores`, `bias`, `pairs`: extents of attention's scores, of their position bias and of their mask, which are others
    for attention to an encoder's output, and so is `mask_width`, bytes of an element of eager attention's mask.
    `until_output`: what attention's variables hold until it has projected its output. `stores_keys`: as in `LayerMode`.
    """

    __slots__ = (
        "bias",
        "computed_ahead",
        "cos",
        "family",
        "held",
        "inner_norm",
        "kernels",
        "linears",
        "mask_width",
        "pairs",
        "returned_weights",
        "scores",
        "sin",
        "stores_keys",
        "tape",
        "until_output",
    )

    def __init__(
        self,
        tape: Tape,
        kernels: KernelConfig,
        linears: dict[str, Linear],
        cos: Value,
        sin: Value,
        family: Family = DEFAULT,
        stores_keys: bool = False,
    ) -> None:
        self.family, self.stores_keys = family, stores_keys
        self.scores, self.bias, self.pairs = "scores", "position_bias", "pairs"
        self.mask_width = kernels.mask_width or cos.width
        self.returned_weights: list[Value] = []
        self.held: list[Value] = []
        self.until_output: list[Value] = []
        self.inner_norm: Parameter | None = None
        self.computed_ahead: dict[str, Value] = {}
        self.tape = tape
        self.kernels = kernels
        self.linears = linears
        self.cos = cos
        self.sin = sin

    def end_attention(self) -> None:
        """Attention returns: its variables are gone."""
        self.tape.drop(*self.until_output)
        self.until_output.clear()
