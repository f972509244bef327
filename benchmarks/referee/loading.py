"""Host memory of processes that load one checkpoint under FSDP, counted on the CPU.

    python benchmarks/referee/loading.py [RANKS]

Writes a small Llama in bfloat16 to a folder of its own, starts RANKS processes (2) as accelerate does for FSDP, and
prints by how much the private memory of each grew while transformers loaded it: in the dtype of the file and in
another one, with and without `cpu_ram_efficient_loading`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

SIZES = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8, "num_attention_heads": 8}
MIB = 1 << 20


def private_bytes() -> int:
    """Memory that this process shares with no other one."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def load(folder: str, dtype: str) -> None:
    """One process of several: loads the model and says what it took."""
    import torch
    import torch.distributed as dist
    from transformers import AutoModelForCausalLM, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dist.init_process_group("gloo")
    assert LlamaForCausalLM  # imported before memory is counted
    before = private_bytes()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    size = sum(parameter.nbytes for parameter in model.parameters())
    grown = private_bytes() - before
    where = "rank 0 alone" if os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "true" else "every rank"
    print(
        f"{dtype:9} {where:13} rank {dist.get_rank()}: model {size // MIB} MiB, private {grown // MIB} MiB", flush=True
    )
    dist.barrier()
    os._exit(0)


def make(folder: str) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**SIZES, vocab_size=8000)).to(torch.bfloat16)
    model.save_pretrained(folder)


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("ranks", nargs="?", default="2")
    arguments.add_argument("--load", nargs=2, help="of one process: the folder and the dtype")
    options = arguments.parse_args()
    if options.load:
        load(*options.load)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        for dtype in ("bfloat16", "float32"):
            for efficient in ("true", "false"):
                told = {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": efficient}
                start = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={options.ranks}", __file__]
                subprocess.run([*start, "--load", folder, dtype], env={**os.environ, **told}, check=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
