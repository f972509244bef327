"""Tells which module is running: in the forward, in a recomputation and (from the autograd node) in the backward."""

from __future__ import annotations

from typing import Any

import torch


class ModuleNames:
    """`current()` is the dotted name of the innermost running module."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._stack: list[str] = []
        self._last = ""
        self._model = model
        self._names = {id(module): name for name, module in model.named_modules()}
        self._handles: list[Any] = []

    def current(self) -> str:
        if self._stack:
            return self._stack[-1]
        node = torch._C._current_autograd_node()
        if node is not None:
            name = node.metadata.get("module")
            if name is not None:
                self._last = str(name)
        return self._last

    def running(self) -> bool:
        """Whether a module's forward is running."""
        return bool(self._stack)

    def __enter__(self) -> ModuleNames:
        for module in self._model.modules():
            self._handles.append(module.register_forward_pre_hook(self._enter))
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        self._stack.append(self._names[id(module)])

    def _leave(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        name = self._stack.pop()
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        if isinstance(first, torch.Tensor) and first.grad_fn is not None:
            first.grad_fn.metadata["module"] = name
