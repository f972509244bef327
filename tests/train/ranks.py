"""Two ranks of a training on the CPU (gloo), measured by memlint.

    torchrun --nproc-per-node 2 tests/train/ranks.py KIND OUT

KIND: ddp or fsdp (FSDP2).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

import memlint.train

CONFIG = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 3, "num_attention_heads": 4}
CONFIG |= {"num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 128}
BATCH = (2, 64)


def wrap(model: Any) -> None:
    """FSDP2 as accelerate wraps: each layer, the embedding, and norm with head, which stays gathered (accelerate 1.15
    utils/fsdp_utils.py:857-879)."""
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model.model.embed_tokens)
    fully_shard([model.model.norm, model.lm_head], reshard_after_forward=False)
    fully_shard(model)


def main(kind: str, folder: str) -> None:
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(**CONFIG, tie_word_embeddings=False))
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        wrap(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with memlint.train.measure(model, optimizer, batch=BATCH, gpu="A100-80GB", folder=folder):
        for _ in range(3):
            ids = torch.randint(0, 2048, BATCH)
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    # Threads of gloo's free tensors, which asks Python: whoever waits for them at the end may wait for ever, or abort.
    os._exit(0)
