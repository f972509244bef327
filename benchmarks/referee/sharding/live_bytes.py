"""Counting the bytes of live tensors of one process, by phase.

A dispatch mode sees every operator's outputs and adds up their storages; a weak reference to the
storage takes the bytes away again when it dies. `UntypedStorage.resize_` is not dispatched, so it is
wrapped: FSDP frees and refills its flat parameters through it. Bytes are exact (no 512 B rounding):
the models here are tiny.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.distributed
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

# gloo reduces and scatters a copy of its input, NCCL the input itself
_COPIES_INPUT = ("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base")


class LiveBytes(TorchDispatchMode):
    """`live` bytes now, `peak` since the last `restart`. Storages of the meta device count nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.live = 0
        self.peak = 0
        self.awaits_forward = False
        self._sizes: dict[int, int] = {}
        self._resize = torch.UntypedStorage.resize_
        self._paused = False
        self._reduce_scatters = {name: getattr(torch.distributed, name, None) for name in _COPIES_INPUT}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._paused:
            return result
        for leaf in tree_iter(result):
            if isinstance(leaf, torch.Tensor):
                self.track(leaf)
        return result

    def __enter__(self) -> LiveBytes:
        counter = self
        resize = self._resize

        def resize_and_count(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            counter._set(id(storage), storage.size() if id(storage) in counter._sizes else None)
            return result

        torch.UntypedStorage.resize_ = resize_and_count  # type: ignore[method-assign]
        for name, function in self._reduce_scatters.items():
            self._replace(name, function and self._uncounted(function))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        for name, function in self._reduce_scatters.items():
            self._replace(name, function)
        super().__exit__(*error)

    @staticmethod
    def _replace(name: str, function: Any) -> None:
        if function is not None:
            setattr(torch.distributed, name, function)
            setattr(torch.distributed.distributed_c10d, name, function)

    def _uncounted(self, function: Any) -> Any:
        """`function` without what it allocates itself."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._paused, before = True, self._paused
            try:
                return function(*args, **kwargs)
            finally:
                self._paused = before

        return call

    def track(self, tensor: torch.Tensor) -> None:
        """Count the storage(s) under `tensor`, once each."""
        inner = getattr(tensor, "_local_tensor", None)
        if inner is not None:  # DTensor
            self.track(inner)
            return
        if tensor.device.type != "cpu":
            return
        storage = tensor.untyped_storage()
        key = id(storage)
        if key not in self._sizes:
            self._sizes[key] = 0
            weakref.finalize(storage, self._forget, key)
        self._set(key, storage.size())

    def restart(self) -> None:
        """Begin a phase: the peak starts from what is alive now."""
        self.peak = self.live

    def begin_forward(self) -> None:
        """The first embedding after `awaits_forward` was set begins the phase (a recomputed one does not)."""
        if self.awaits_forward:
            self.awaits_forward = False
            self.restart()

    def _set(self, key: int, size: int | None) -> None:
        if size is None:
            return
        self.live += size - self._sizes[key]
        self._sizes[key] = size
        self.peak = max(self.peak, self.live)

    def _forget(self, key: int) -> None:
        self.live -= self._sizes.pop(key, 0)
