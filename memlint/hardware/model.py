"""The description of a GPU."""

from __future__ import annotations

from memlint._record import NamedTuple


class Gpu(NamedTuple):
    """`nominal_bytes` is the marketing size, `usable_bytes` what a process can get (without driver and ECC)."""

    name: str  # canonical: "A100-80GB"
    nominal_bytes: int
    usable_bytes: int
    capability: tuple[int, int] = (0, 0)  # CUDA compute capability; (0, 0) for other vendors
    vendor: str = "nvidia"
    context_bytes: int = 0  # CUDA context with the kernels of a training run loaded
    bf16: bool = True
    flash_attention: int = 2  # highest FlashAttention major version that runs on it, 0 = none
    fp8: bool = False
    generic: bool = False  # made from a size such as "24GiB"
    class_rank: int = 0  # order among cards of equal memory in `fits_on`; 0 = not listed there
