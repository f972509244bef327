"""Host memory of processes that load one checkpoint under FSDP and under ZeRO-3, counted on the CPU.

    python benchmarks/referee/loading.py [RANKS]

Writes a small Llama and a small Qwen3 with experts in bfloat16 to folders of their own, starts RANKS processes (2) as
accelerate does, and prints by how much the private memory of each grew while transformers loaded the model: at its
highest and at the end, in the dtype of the file and in another one; under FSDP with and without
`cpu_ram_efficient_loading`. DeepSpeed's rows need deepspeed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.referee.sharding.run import free_shared_buffers

SIZES = {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 8000}
DENSE = {**SIZES, "num_hidden_layers": 8, "intermediate_size": 4096}
EXPERTS = {**SIZES, "num_hidden_layers": 4, "num_experts": 16, "moe_intermediate_size": 512, "head_dim": 128}
MIB = 1 << 20
ZERO = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}


def private_bytes() -> int:
    """Memory that this process shares with no other one."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


class Highest(threading.Thread):
    """The most private memory while it runs, looked at every few milliseconds."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.bytes, self.ended = 0, False

    def run(self) -> None:
        while not self.ended:
            self.bytes = max(self.bytes, private_bytes())
            time.sleep(0.002)


def load(folder: str, dtype: str, engine: str) -> None:
    """One process of several: loads the model and says what it took."""
    import torch
    import torch.distributed as dist
    from transformers import AutoModelForCausalLM, LlamaForCausalLM, Qwen3MoeForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dist.init_process_group("gloo")
    told = _zero3() if engine == "zero3" else None
    assert LlamaForCausalLM and Qwen3MoeForCausalLM  # imported before memory is counted
    before, highest = private_bytes(), Highest()
    highest.start()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    highest.ended = True
    numel = sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters())
    size, most, grown = (
        numel * getattr(torch, dtype).itemsize,
        highest.bytes - before,
        private_bytes() - before,
    )
    words = f"model {size // MIB} MiB, private {most // MIB} MiB at most, {grown // MIB} MiB at the end"
    print(f"{Path(folder).name:8} {dtype:9} {engine:14} rank {dist.get_rank()}: {words}", flush=True)
    dist.barrier()
    del told
    free_shared_buffers(os.environ["MASTER_PORT"])
    os._exit(0)


def _zero3() -> Any:
    """What tells transformers that ZeRO-3 divides the model, as the Trainer has it."""
    import deepspeed
    from transformers.integrations import HfDeepSpeedConfig

    deepspeed.init_distributed("gloo")
    return HfDeepSpeedConfig(ZERO)


def make(folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    LlamaForCausalLM(LlamaConfig(**DENSE)).to(torch.bfloat16).save_pretrained(folder / "dense")
    Qwen3MoeForCausalLM(Qwen3MoeConfig(**EXPERTS)).to(torch.bfloat16).save_pretrained(folder / "experts")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("ranks", nargs="?", default="2")
    arguments.add_argument("--load", nargs=3, help="of one process: the folder, the dtype and the engine")
    options = arguments.parse_args()
    if options.load:
        load(*options.load)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for kind, dtype, engine in itertools.product(("dense", "experts"), ("bfloat16", "float32"), ENGINES):
            start = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={options.ranks}", __file__]
            command = [*start, "--load", str(Path(folder, kind)), dtype, engine]
            subprocess.run(command, env={**os.environ, **ENGINES[engine]}, check=True)
    return 0


ENGINES = {
    "fsdp-rank-0": {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"},
    "fsdp-every": {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"},
    "zero3": {"DS_ACCELERATOR": "cpu"},
}


if __name__ == "__main__":
    raise SystemExit(main())
