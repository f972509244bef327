"""Measures memory peaks: with PyTorch's CUDA allocator, or without a GPU by counting the bytes of live tensors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from memlint._record import NamedTuple
from memlint.simulation.tracker import rounded, tensors_in


class MeasuredPeak(NamedTuple):
    """Peaks in bytes: of memory that tensors occupied, and that the allocator reserved (0 without an allocator)."""

    allocated: int = 0
    reserved: int = 0

    def most(self, other: MeasuredPeak) -> MeasuredPeak:
        return MeasuredPeak(max(self.allocated, other.allocated), max(self.reserved, other.reserved))


class Meter(Protocol):
    """Measures peaks. `take` returns the peak since the last `take`, and resets it. `sees_loading`: whether the first
    peak includes what happened before `start`."""

    device: str
    sees_loading: bool

    def start(self, model: torch.nn.Module) -> None: ...

    def take(self) -> MeasuredPeak: ...

    def stop(self) -> None: ...


class CudaMeter:
    """`max_memory_allocated` and `max_memory_reserved` since the last reset.

    `memory_stats_as_nested_dict` is what both are made of: one call into C++, where each of them flattens and sorts 100
    counters (torch 2.13 cuda/memory.py, memory_stats).
    """

    device = "cuda"
    sees_loading = True

    def start(self, model: torch.nn.Module) -> None:
        """Does not reset the peak, so that the first `take` includes everything until now, also loading."""

    def take(self) -> MeasuredPeak:
        stats = torch.cuda.memory_stats_as_nested_dict()
        torch.cuda.reset_peak_memory_stats()
        if not stats:
            return MeasuredPeak()
        return MeasuredPeak(stats["allocated_bytes"]["all"]["peak"], stats["reserved_bytes"]["all"]["peak"])

    def stop(self) -> None:
        """Nothing to undo."""


class LiveTensorMeter(TorchDispatchMode):  # type: ignore[misc]
    """The bytes of live tensors on a machine without a GPU, rounded to blocks as the CUDA allocator rounds them.

    A dispatch mode sees the output of every operator, including autograd's. Tensors that exist already are found by the
    garbage collector, except those that only C++ references (DDP's buckets). Slows every operator: for tests.
    """

    device = "cpu"
    sees_loading = False

    def __init__(self) -> None:
        super().__init__()
        self.current = 0
        self._peak = 0
        self._live: dict[int, tuple[int, Any]] = {}
        self._resize: Callable[..., Any] | None = None

    def start(self, model: torch.nn.Module) -> None:
        gc.collect()  # an earlier training may have left tensors in reference cycles
        for tensor in (*model.parameters(), *model.buffers(), *filter(_is_tensor, gc.get_objects())):
            self._add(tensor)
        original = self._resize = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:  # FSDP frees unsharded parameters by `resize_(0)`
            result = original(storage, size)
            self._resized(storage)
            return result

        torch.UntypedStorage.resize_ = resize
        self.__enter__()

    def take(self) -> MeasuredPeak:
        peak, self._peak = self._peak, self.current
        return MeasuredPeak(peak)

    def stop(self) -> None:
        if self._resize is not None:
            self.__exit__(None, None, None)
            torch.UntypedStorage.resize_, self._resize = self._resize, None

    def _add(self, tensor: torch.Tensor) -> None:
        if hasattr(tensor, "__tensor_flatten__") or tensor.layout is not torch.strided:
            return  # a wrapper such as DTensor: its parts are counted; a sparse tensor has no storage of its own
        storage = tensor.untyped_storage()
        if storage.device.type == "meta":
            return  # takes no memory: DTensor runs operators on fake tensors of the whole shape to learn their sharding
        key = storage._cdata
        if key not in self._live:
            self._live[key] = (0, weakref.ref(storage, lambda _: self._change(key, None)))
            self._change(key, rounded(storage.nbytes()))

    def _resized(self, storage: Any) -> None:
        if storage._cdata in self._live:
            self._change(storage._cdata, rounded(storage.nbytes()))

    def _change(self, key: int, size: int | None) -> None:
        """Notes that the storage now has `size` bytes; None: it was freed."""
        old, reference = self._live.pop(key, (0, None))
        self.current += (size or 0) - old
        self._peak = max(self._peak, self.current)
        if size is not None:
            self._live[key] = (size, reference)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self._add(tensor)
        return out


def _is_tensor(found: object) -> bool:
    return type(found) in (torch.Tensor, torch.nn.Parameter)


def meter_for(model: torch.nn.Module) -> Meter:
    """The meter for the device that the model is on."""
    on_gpu = any(parameter.device.type == "cuda" for parameter in model.parameters())
    return CudaMeter() if on_gpu or torch.cuda.is_available() else LiveTensorMeter()
