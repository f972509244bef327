"""States and step temporaries of real optimizer classes, counted on the CPU.

    python benchmarks/referee/optimizers.py [--write] [--only NAME ...]

Needs torch 2.13, transformers 5.23, bitsandbytes 0.50.2, galore-torch 1.0, apollo-torch 1.0.3, schedulefree 1.4.1,
grokadamw 0.1.2, torch-optimi 0.3.3, adam-mini 1.1.1, LLaMA-Factory's muon.py on the path as `muon`, came-pytorch 0.1.3,
lion-pytorch 0.2.5, adabelief-pytorch 0.2.1, axolotl-contribs-mit 0.0.6, torchao, q-galore-torch 1.0, and adopt.py,
adamc.py, sinkgd.py and qgalore.py of axolotl 0.19.0 on the path, with muonclip.py of ms-swift 4.6.0 (less its import of
a base class) and optimization.py of transformers 4.45 as `old_adamw`. TORCHDYNAMO_DISABLE=1, since dion and sinkgd
compile their steps. Prints each count beside the closed form; --write keeps them in benchmarks/data/optimizers.jsonl,
which tests/memory compares with. --only runs and keeps these names alone.
"""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.memory.state.storage import rounded
from tests.comparisons.optimizers import closed_form

DATA = Path(__file__).resolve().parents[1] / "data" / "optimizers.jsonl"
SHAPES = ([[1024, 1024], [256, 1024], [512, 256]], [[512, 2048], [1024], [4096]])
_RANK = {"rank": 64, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}
_RUN = {"optimizer.rank": 64}


def cases() -> Iterator[tuple[str, Callable[[list[Any]], Any], dict[str, object]]]:
    """(the table's name, the class as frameworks build it, the run's fields)."""
    import adabelief_pytorch
    import adam_mini
    import adamc
    import adopt
    import apollo_torch
    import bitsandbytes.optim as bnb
    import came_pytorch
    import galore_torch
    import grokadamw
    import lion_pytorch
    import muon
    import optimi
    import qgalore
    import schedulefree
    import sinkgd
    import torch.optim as optim
    from axolotl.contribs.mit.dion.dion import Dion
    from transformers import Adafactor

    fixed = {"scale_parameter": False, "relative_step": False, "lr": 1e-3}
    yield "adamw_torch", lambda p: optim.AdamW(p, foreach=True), {}
    yield "adamw_torch", lambda p: optim.AdamW(p, foreach=False), {"optimizer.foreach": False}
    for foreach, field in ((True, {}), (False, {"optimizer.foreach": False})):
        yield "nadam", lambda p, foreach=foreach: optim.NAdam(p, foreach=foreach), field
        yield "adamw_torch_amsgrad", lambda p, each=foreach: optim.AdamW(p, amsgrad=True, foreach=each), field
    yield "nadam", lambda p: optim.NAdam(p, foreach=True, weight_decay=0.1), {"optimizer.weight_decay": 0.1}
    yield "sgd", lambda p: optim.SGD(p, lr=0.1, foreach=True, momentum=0.9), {"optimizer.momentum": 0.9}
    yield "sgd_momentum", lambda p: optim.SGD(p, lr=0.1, foreach=True, momentum=0.9), {}
    yield "sparse_adam", lambda p: optim.SparseAdam(p), {}
    yield "adabelief", lambda p: adabelief_pytorch.AdaBelief(p, print_change_log=False), {}
    yield "adagrad", lambda p: optim.Adagrad(p, foreach=True), {}
    yield "rmsprop", lambda p: optim.RMSprop(p, foreach=True), {}
    both = {"optimizer.momentum": 0.9, "optimizer.weight_decay": 0.1}
    yield "rmsprop", lambda p: optim.RMSprop(p, foreach=True, momentum=0.9, weight_decay=0.1), both
    yield "sgd", lambda p: optim.SGD(p, lr=0.1, foreach=True), {}
    decayed = {"optimizer.weight_decay": 0.1}
    yield "sgd", lambda p: optim.SGD(p, lr=0.1, foreach=True, weight_decay=0.1), decayed
    yield "adafactor", lambda p: Adafactor(p, **fixed), {}
    yield "galore_adamw", lambda p: galore_torch.GaLoreAdamW(_groups(p)), _RUN
    yield "galore_adafactor", lambda p: galore_torch.GaLoreAdafactor(_groups(p), **fixed), _RUN
    yield "q_galore_adamw8bit", lambda p: _q_galore(qgalore, p), _RUN
    random = {"proj": "random", "scale_type": "channel"}
    yield "apollo_adamw", lambda p: apollo_torch.APOLLOAdamW(_groups(p, **random)), _RUN
    yield "schedule_free_adamw", lambda p: _training(schedulefree.AdamWScheduleFree(p)), {}
    yield "schedule_free_radam", lambda p: _training(schedulefree.RAdamScheduleFree(p)), {}
    yield "schedule_free_sgd", lambda p: _training(schedulefree.SGDScheduleFree(p, lr=0.1)), {}
    yield "grokadamw", lambda p: grokadamw.GrokAdamW(p), {}
    yield "stable_adamw", lambda p: optimi.StableAdamW(p, lr=0.1, foreach=True), {}
    for name, kind in (("adamw_bnb", bnb.AdamW), ("lion", bnb.Lion), ("rmsprop_bnb", bnb.RMSprop)):
        yield f"{name}_8bit", lambda p, kind=kind: kind(p, optim_bits=8), {}
        yield f"{name}_32bit", lambda p, kind=kind: kind(p, optim_bits=32), {}
    yield "ademamix", lambda p: bnb.AdEMAMix(p), {}
    yield "ademamix_8bit", lambda p: bnb.AdEMAMix(p, optim_bits=8), {}
    yield "adam_mini", lambda p: _adam_mini(adam_mini, p), {}
    yield "muon", lambda p: muon.Muon(1e-3, 0.0, _matrices(p), adamw_params=_vectors(p)), {}
    yield "adopt_adamw", lambda p: adopt.ADOPT(p, decouple=True, foreach=True), {}
    yield "adamc", lambda p: adamc.AdamC(p), {}
    yield "came_pytorch", lambda p: came_pytorch.CAME(p, lr=1e-4), {}
    yield "lion_pytorch", lambda p: lion_pytorch.Lion(p, lr=1e-4), {}
    yield "optimi_adamw", lambda p: optimi.AdamW(p, lr=1e-4, foreach=False), {}
    yield "dion", lambda p: Dion(_matrices_apart(p, algorithm="adamw"), lr=1e-3), {}
    yield "sinkgd", lambda p: sinkgd.SinkGD(_matrices_apart(p, use_sinkgd=False), lr=1e-3), {}


def fused_and_paged() -> Iterator[tuple[str, Callable[[list[Any]], Any], dict[str, object]]]:
    """As `cases`. Paged states are ordinary memory on the CPU."""
    import bitsandbytes.optim as bnb
    import muonclip
    import old_adamw
    import torch.optim as optim

    yield "adamw_torch_fused", lambda p: optim.AdamW(p, fused=True), {}
    yield "rmsprop_bnb", lambda p: bnb.RMSprop(p, optim_bits=32), {}
    for name, kind in (("paged_adamw", bnb.PagedAdamW), ("paged_lion", bnb.PagedLion)):
        yield f"{name}_32bit", lambda p, kind=kind: kind(p, optim_bits=32), {}
        yield f"{name}_8bit", lambda p, kind=kind: kind(p, optim_bits=8), {}
    yield "adamw_hf", lambda p: old_adamw.AdamW(p, no_deprecation_warning=True), {}
    yield "muonclip", lambda p: muonclip.MuonClip(p), {}


def _matrices_apart(parameters: list[Any], **options: object) -> list[dict[str, Any]]:
    vectors = [{"params": _vectors(parameters), **options}] if _vectors(parameters) else []
    return [{"params": _matrices(parameters)}, *vectors]


def _q_galore(module: Any, parameters: list[Any]) -> Any:
    """As Axolotl builds it, on the CPU."""
    import torch

    torch.cuda.synchronize = lambda *device: None
    module.patch_q_galore_for_modern_bnb()
    from q_galore_torch import QGaLoreAdamW8bit

    quantised = {"quant": True, "quant_group_size": 256, "quant_n_bit": 4}
    adaptive = {"cos_threshold": 0.4, "gamma_proj": 2, "queue_size": 5}
    return QGaLoreAdamW8bit(_groups(parameters, **quantised, **adaptive), lr=1e-3)


def _training(optimizer: Any) -> Any:
    optimizer.train()
    return optimizer


def _matrices(parameters: list[Any]) -> list[Any]:
    return [one for one in parameters if one.ndim == 2]


def _vectors(parameters: list[Any]) -> list[Any]:
    return [one for one in parameters if one.ndim != 2]


def _groups(parameters: list[Any], **options: object) -> list[dict[str, Any]]:
    vectors = [{"params": _vectors(parameters)}] if _vectors(parameters) else []
    return [*vectors, {"params": _matrices(parameters), **_RANK, **options}]


def _adam_mini(module: Any, parameters: list[Any]) -> Any:
    names = [
        (f"layers.{index}.mlp.up_proj.{'weight' if one.ndim == 2 else 'bias'}", one)
        for index, one in enumerate(parameters)
    ]
    return module.Adam_mini(named_parameters=names, dim=1024, n_heads=8, n_kv_heads=8, verbose=False)


def count(make: Callable[[list[Any]], Any], shapes: list[list[int]], dtype: str, steps: int = 8) -> tuple[int, int]:
    """(bytes of states, highest level of the last step above the level before it)."""
    import torch

    with _mode() as live:
        parameters = [torch.nn.Parameter(torch.randn(shape).to(getattr(torch, dtype))) for shape in shapes]
        gc.collect()
        base, optimizer, highest = live.now, make(parameters), 0
        for _ in range(steps):
            for one in parameters:
                one.grad = torch.randn_like(one)
            gc.collect()
            before = live.highest = live.now
            optimizer.step()
            highest = live.highest - before
            for one in parameters:
                one.grad = None
            gc.collect()
        return live.now - base, highest


def count_sparse(make: Callable[[list[Any]], Any], shapes: list[list[int]], dtype: str) -> tuple[int, int]:
    """As `count`, with sparse gradients of every row. Their tensors are made below the dispatcher, so that PyTorch's
    own record of memory is read."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    parameters = [torch.nn.Parameter(torch.randn(shape).to(getattr(torch, dtype))) for shape in shapes]
    optimizer, highest = make(parameters), 0
    for _ in range(2):
        for one in parameters:
            one.grad = torch.randn_like(one).to_sparse(1)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
            optimizer.step()
        now = highest = 0
        for event in record.profiler.kineto_results.events():
            now += event.nbytes() if event.name() == "[memory]" else 0
            highest = max(highest, now)
    states = (each for one in parameters for each in optimizer.state[one].values() if isinstance(each, torch.Tensor))
    return sum(rounded(each.nbytes) for each in states if each.nbytes > 8), highest


def _mode() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Live(TorchDispatchMode):  # type: ignore[misc]
        """Bytes of live storages; single numbers are step counters, which CUDA runs keep on the host."""

        def __init__(self) -> None:
            super().__init__()
            self.now = self.highest = 0
            self.known: dict[int, int] = {}

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return tree_map(self._seen, function(*args, **(kwargs or {})))

        def _seen(self, value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.untyped_storage().nbytes() <= 8:
                return value
            storage = value.untyped_storage()
            key = storage._cdata
            if key not in self.known:
                self.known[key] = rounded(storage.nbytes())
                self.now += self.known[key]
                self.highest = max(self.highest, self.now)
                weakref.finalize(storage, self._gone, key)
            return value

        def _gone(self, key: int) -> None:
            self.now -= self.known.pop(key)

    return Live()


def _wanted(names: list[str]) -> Iterator[tuple[str, Callable[[list[Any]], Any], dict[str, object]]]:
    yield from (one for group in (cases, fused_and_paged) for one in group() if not names or one[0] in names)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--write", action="store_true", help="keep the counts for the tests")
    arguments.add_argument("--only", nargs="*", default=[], metavar="NAME", help="run these alone")
    options = arguments.parse_args()
    kept = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in kept if options.only and row["name"] not in options.only]
    for shapes in SHAPES:
        for dtype in ("float32", "bfloat16"):
            for name, make, fields in _wanted(options.only):
                counting = count_sparse if name == "sparse_adam" else count
                states, step = counting(make, shapes, dtype)
                rows.append(
                    {"name": name, "fields": fields, "dtype": dtype, "shapes": shapes, "states": states, "step": step}
                )
                print(
                    f"{name:22} {dtype:9} states {states:9} step {step:9}  closed form",
                    *closed_form(name, shapes, dtype, fields),
                )
    if options.write:
        DATA.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
