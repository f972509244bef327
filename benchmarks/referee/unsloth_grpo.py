"""What a compiled head keeps for the backward of GRPO: `python benchmarks/referee/unsloth_grpo.py`.

Unsloth multiplies the completions' hidden states with the head in chunks, inside of one function that torch.compile
takes as a whole (unsloth_zoo 2026.8 rl_replacements.py, chunked_hidden_states_selective_log_softmax). Whether the
chunks bound the logits depends on what AOTAutograd keeps between forward and backward. Here the same arithmetic is
partitioned on the CPU, and the tensors that its forward hands on are counted: the logits of all chunks, in half
precision, so that chunks bound only what is in fp32.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser

CASES = ((64, 32, 1000, 4), (256, 64, 4096, 16), (128, 64, 8192, 8))  # rows, width, words, chunks


def log_probabilities(hidden: torch.Tensor, head: torch.Tensor, words: torch.Tensor, chunks: int) -> torch.Tensor:
    """Log-probabilities of `words` [rows] from `hidden` [rows, width] and `head` [vocabulary, width]."""
    found = []
    for rows, wanted in zip(torch.chunk(hidden, chunks), torch.chunk(words, chunks), strict=True):
        logits = (rows @ head.t()).to(torch.float32)
        chosen = torch.gather(logits, -1, wanted.unsqueeze(-1)).squeeze(-1)
        found.append(chosen - torch.logsumexp(logits, -1))
    return torch.concat(found)


def kept_bytes(rows: int, width: int, words: int, chunks: int) -> int:
    """Bytes of the tensors of `words` columns that the forward keeps for the backward."""
    kept = []

    def forward(graph: Any, _: object) -> Callable[..., Any]:
        (output,) = (node.args[0] for node in graph.graph.nodes if node.op == "output")
        values = (node.meta.get("val") for node in output if hasattr(node, "meta"))
        kept.extend(v.nbytes for v in values if isinstance(v, torch.Tensor) and v.shape[-1:] == (words,))
        run: Callable[..., Any] = graph.forward
        return run

    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=lambda graph, _: graph.forward,
        partition_fn=min_cut_rematerialization_partition,
    )
    hidden = torch.randn(rows, width, dtype=torch.bfloat16, requires_grad=True)
    head = torch.randn(words, width, dtype=torch.bfloat16)
    chosen = torch.randint(0, words, (rows,))
    torch.compile(log_probabilities, backend=backend, dynamic=False)(hidden, head, chosen, chunks).sum().backward()
    return sum(kept)


def main() -> int:
    parser(__doc__).parse_args()
    wrong = 0
    for rows, width, words, chunks in CASES:
        kept, logits = kept_bytes(rows, width, words, chunks), 2 * rows * words
        wrong += kept != logits
        print(
            f"{rows} rows, {words} words, {chunks} chunks: {kept} bytes kept, {logits} of all logits in half precision"
        )
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
