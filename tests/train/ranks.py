"""Two ranks of a training on the CPU (gloo), measured by memlint.

    torchrun --nproc-per-node 2 tests/train/ranks.py KIND OUT

KIND: ddp or fsdp (FSDP2 over decoder layers).
"""

from __future__ import annotations

import sys

import torch
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

import memlint.train

CONFIG = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 3, "num_attention_heads": 4}
CONFIG |= {"num_key_value_heads": 2, "vocab_size": 2048, "max_position_embeddings": 128}
BATCH = (2, 64)


def main(kind: str, folder: str) -> None:
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(**CONFIG, tie_word_embeddings=False))
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    else:
        for layer in model.model.layers:  # type: ignore[union-attr]
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    with memlint.train.measure(model, optimizer, batch=BATCH, gpu="A100-80GB", folder=folder):
        for _ in range(3):
            ids = torch.randint(0, 2048, BATCH)
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
