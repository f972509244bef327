#!/usr/bin/env bash
# The same file on four cards, and once more with longer sequences, whose activations wait in host memory.
set -euo pipefail

tune run --nproc_per_node 4 full_finetune_distributed --config 8b_full.yaml
tune run --nproc_per_node 4 full_finetune_distributed --config 8b_full.yaml \
  tokenizer.max_seq_len=16384 enable_activation_offloading=true
