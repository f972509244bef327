"""What slime's own loss holds for each logit, run on small tensors: `loss.bytes_per_logit` of formats/slime.

    python benchmarks/referee/slime_loss.py FOLDER [MEGATRON]

FOLDER is a release of slime, unpacked (0.3.1, or 0.2.2 with MEGATRON, the package folder of megatron core 0.13.1, whose
cross entropy it calls). A head makes logits in bf16, Megatron-LM's wrapper turns them to fp32 (core
transformer/module.py, float16_to_fp32), and slime's `calculate_log_probs_and_entropy` scores them: all tokens at once
in 0.3.1, a copy of each answer's in 0.2.2. Printed are the most bytes that are alive beside the head and its input,
over the number of logits, without and with an entropy in the loss, and in chunks. A lower bound has to lie below each.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from memlint.formats.slime.behaviour import LOSS
from memlint.simulation.tracker import Tracker

TOKENS, WIDTH, VOCABULARY = 512, 16, 8192
PROMPT = 64  # tokens that 0.2.2 leaves out


def loaded(path: Path, name: str) -> Any:
    """A module of the release by its file; functions that it compiles run as they stand."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), vars(module))
    return module


def alone() -> None:
    """One process, whose reductions change nothing."""
    torch.compile = lambda *args, **_: args[0] if args else (lambda function: function)
    torch.distributed.all_reduce = lambda *_, **__: None


def stand_ins(megatron: Path) -> None:
    """What core 0.13.1's cross entropy asks of the rest of Megatron-LM, for one rank."""
    core = megatron / "core"
    for name in ("megatron", "megatron.core", "megatron.core.fusions", "megatron.core.tensor_parallel"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    jit, state = types.ModuleType("megatron.core.jit"), types.ModuleType("megatron.core.parallel_state")
    vars(jit)["jit_fuser"] = lambda function: function
    for name in ("get_tensor_model_parallel_group", "get_tensor_model_parallel_rank"):
        setattr(state, name, lambda *_, **__: 0)
    vars(state)["get_tensor_model_parallel_world_size"] = lambda: 1
    sys.modules |= {"megatron.core.jit": jit, "megatron.core.parallel_state": state}
    utils = types.ModuleType("megatron.core.tensor_parallel.utils")
    words = "VocabUtility"
    setattr(utils, words, type(words, (), {"vocab_range_from_per_partition_vocab_size": lambda size, *_: (0, size)}))
    sys.modules["megatron.core.tensor_parallel.utils"] = utils
    group = types.SimpleNamespace(rank=lambda: 0, size=lambda: 1)
    vars(state)["group"] = group
    loaded(core / "tensor_parallel" / "cross_entropy.py", "megatron.core.tensor_parallel.cross_entropy")
    loaded(core / "fusions" / "fused_cross_entropy.py", "megatron.core.fusions.fused_cross_entropy")


def peak(module: Any, is_whole: bool, with_entropy: bool, chunk: int) -> float:
    """The most bytes a logit while the loss and its backward run."""
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False, dtype=torch.bfloat16)
    inputs = torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)
    targets = torch.randint(0, VOCABULARY, (TOKENS,))
    group = types.SimpleNamespace(rank=lambda: 0, size=lambda: 1)
    most = 0
    with Tracker() as tracker:
        logits = head(inputs).float()
        scored, wanted = (logits, targets) if is_whole else (logits[PROMPT:], targets[PROMPT:])
        found = module.calculate_log_probs_and_entropy(
            scored, wanted, group, with_entropy=with_entropy, chunk_size=chunk
        )
        loss = found[0].sum() + (found[1].sum() if with_entropy else 0)
        loss.backward()
    live = 0
    for event in tracker.events:
        live += tracker.allocations[event].bytes if event >= 0 else -tracker.allocations[~event].bytes
        most = max(most, live)
    return most / (TOKENS * VOCABULARY)


def cases(folder: Path) -> Iterator[tuple[str, float]]:
    module = loaded(folder / "slime" / "utils" / "ppo_utils.py", "slime.utils.ppo_utils")
    is_whole = hasattr(module, "_VocabParallelLogProbEntropy")
    for name, with_entropy, chunk in (("plain", False, -1), ("entropy", True, -1), ("chunks of 128", False, 128)):
        yield name, peak(module, is_whole, with_entropy, chunk)


def main(folder: str, megatron: str = "") -> int:
    alone()
    if megatron:
        stand_ins(Path(megatron))
    found = list(cases(Path(folder)))
    for name, width in found:
        print(f"{name:16}{width:6.1f} bytes a logit")
    print(f"{'the bound':16}{LOSS.value:6.1f}")
    return int(any(width < LOSS.value for _, width in found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
