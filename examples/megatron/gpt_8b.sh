#!/bin/bash
# An 8B model with grouped queries, on two machines: tensor parallel in pairs, four pipeline stages.
# memlint: gpu=H100-80GB
set -euo pipefail

GPUS_PER_NODE=8
NNODES=2

MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --swiglu
    --normalization RMSNorm
    --position-embedding-type rope
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --seq-length 4096
    --max-position-embeddings 4096
    --tokenizer-type NullTokenizer
    --vocab-size 128256
)
PARALLEL_ARGS=(
    --tensor-model-parallel-size 2
    --pipeline-model-parallel-size 4
    --sequence-parallel
    --use-distributed-optimizer
)
TRAINING_ARGS=(
    --micro-batch-size 2
    --global-batch-size 64
    --train-iters 1000
    --lr 3.0e-4
    --bf16
    --recompute-activations
)

torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NNODES" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" \
    "${PARALLEL_ARGS[@]}" \
    "${TRAINING_ARGS[@]}"
