"""Counts the bytes of live tensor storages while PyTorch code runs.

A dispatch mode sees the outputs of every operator. A storage that was not seen before is an
allocation; a weak reference tells when it is freed. Sizes are rounded to 512 bytes as PyTorch's CUDA
allocator does (c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize, v2.13.0).

Only allocations by operators are seen. What kernels allocate inside is added by `temporaries`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

BLOCK = 512
USES_BY_ENGINE = 4  # references to a gradient that is added to, inside of a dispatch mode, if nothing else holds it
Temporaries = Callable[[Any, tuple[Any, ...], Any], int]


class Allocation:
    """One storage. `kind` (weights, gradients, ...) is set as soon as it is known."""

    __slots__ = ("bytes", "dtype", "kind", "module", "operator", "phase", "shape")

    def __init__(self, tensor: torch.Tensor, size: int, operator: str, module: str, phase: str) -> None:
        self.bytes = size
        self.shape = tuple(tensor.shape)
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.operator = operator
        self.module = module
        self.phase = phase
        self.kind = ""

    def copy(self, size: int, phase: str) -> Allocation:
        """The same storage with another size, allocated in `phase`."""
        new = Allocation.__new__(Allocation)
        new.bytes, new.shape, new.dtype, new.operator = size, self.shape, self.dtype, self.operator
        new.module, new.phase, new.kind = self.module, phase, self.kind
        return new


def rounded(size: int) -> int:
    """`size` bytes as the CUDA allocator counts them."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


class Tracker(TorchDispatchMode):  # type: ignore[misc]
    """Live bytes, and the sequence of allocations and frees.

    `events[i]` is an index into `allocations`, or its complement (`~index`) when that storage is freed.
    `marks` holds (position in `events`, phase that begins there).
    """

    def __init__(self, temporaries: Temporaries | None = None) -> None:
        super().__init__()
        self.allocations: list[Allocation] = []
        self.events: list[int] = []
        self.marks: list[tuple[int, str]] = []
        self.current = 0
        self.phase = ""
        self.module: Callable[[], str] = str
        self.recomputing: Callable[[], bool] = bool  # whether a module's forward runs (in the backward: again)
        self.ignored: Callable[[torch.Tensor], bool] = lambda tensor: False
        self._live: dict[int, tuple[int, Any]] = {}
        self._temporaries = temporaries

    def begin(self, phase: str) -> None:
        self.phase = phase
        self.marks.append((len(self.events), phase))

    def add(self, tensor: torch.Tensor, operator: str, kind: str = "") -> None:
        """Counts the storage of `tensor` unless it is already counted."""
        if hasattr(tensor, "__tensor_flatten__"):
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live or self.ignored(tensor):
            return
        size = rounded(storage.nbytes())
        if not size:
            return
        allocation = Allocation(tensor, size, operator, self.module(), self.phase)
        allocation.kind = kind or ("activations" if self.phase == "backward" and self.recomputing() else "")
        self._record(allocation)
        index = len(self.allocations) - 1
        self._live[key] = (index, weakref.ref(storage, self._freed(key)))

    def label(self, tensors: Iterable[torch.Tensor], kind: str) -> None:
        """Sets the kind of the storages of `tensors`."""
        for tensor in tensors:
            entry = self._live.get(tensor.untyped_storage()._cdata)
            if entry is not None:
                self.allocations[entry[0]].kind = kind

    def allocation_of(self, tensor: torch.Tensor) -> Allocation | None:
        entry = self._live.get(tensor.untyped_storage()._cdata)
        return None if entry is None else self.allocations[entry[0]]

    def transient(self, like: torch.Tensor, size: int, operator: str) -> None:
        """An allocation that a kernel makes and frees before it returns."""
        allocation = Allocation(like, rounded(size), operator, self.module(), self.phase)
        allocation.kind = "temporaries"
        self._record(allocation)
        self._free(len(self.allocations) - 1)

    def resized(self, storage: Any) -> None:
        """A storage that grew or shrank in place (FSDP frees unsharded parameters by `resize_(0)`)."""
        entry = self._live.get(storage._cdata)
        if entry is None:
            return
        old, size = self.allocations[entry[0]], rounded(storage.nbytes())
        if size == old.bytes:
            return
        self._free(entry[0])
        new = old.copy(size, self.phase)
        self._record(new)
        self._live[storage._cdata] = (len(self.allocations) - 1, entry[1])

    def __enter__(self) -> Tracker:
        original = torch.UntypedStorage.resize_
        self._original_resize = original

        def resize(storage: Any, size: int) -> Any:
            result = original(storage, size)
            self.resized(storage)
            return result

        torch.UntypedStorage.resize_ = resize
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.UntypedStorage.resize_ = self._original_resize
        super().__exit__(*error)

    def _record(self, allocation: Allocation) -> None:
        self.events.append(len(self.allocations))
        self.allocations.append(allocation)
        self.current += allocation.bytes

    def _free(self, index: int) -> None:
        self.events.append(~index)
        self.current -= self.allocations[index].bytes

    def _freed(self, key: int) -> Callable[[Any], None]:
        def callback(_: Any) -> None:
            index, _reference = self._live.pop(key)
            self._free(index)

        return callback

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented  # a wrapper such as DTensor, which then calls the operator on its plain tensors
        out = accumulated_in_place(func, args) if self.phase == "backward" else None
        if out is not None:
            return out
        out = func(*args, **(kwargs or {}))
        for tensor in tensors_in(out):
            self.add(tensor, func._schema.name)
        if self._temporaries is not None:
            size = self._temporaries(func, args, out)
            if size:
                self.transient(next(tensors_in(out)), size, func._schema.name)
        return out


def accumulated_in_place(func: Any, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Adds the second gradient of a value to the first in place, as the autograd engine does with plain tensors that
    nothing else holds (torch 2.13 torch/csrc/autograd/input_buffer.cpp, can_accumulate_inplace).

    The engine does not do so with tensor subclasses such as fake tensors: the simulation would then show a buffer that
    no GPU allocates. A gradient that something else holds is not written over: reentrant checkpointing holds that of
    the layer's output until the layer's backward ends.
    """
    if func is not torch.ops.aten.add.Tensor or torch.is_grad_enabled() or len(args) < 2:
        return None
    old, new = args[0], args[1]
    if not isinstance(new, torch.Tensor) or not isinstance(old, torch.Tensor):
        return None
    dense = old.untyped_storage().nbytes() == old.numel() * old.element_size()
    dense = dense and old._use_count() <= USES_BY_ENGINE
    return old if dense and old.shape == new.shape and old.dtype == new.dtype else None


def tensors_in(out: Any) -> Iterator[torch.Tensor]:
    """The tensors among an operator's outputs (operators nest them in at most one list)."""
    if isinstance(out, torch.Tensor):
        yield out
    elif isinstance(out, (tuple, list)):
        for item in out:
            if isinstance(item, torch.Tensor):
                yield item
            elif isinstance(item, (tuple, list)):
                yield from (inner for inner in item if isinstance(inner, torch.Tensor))
