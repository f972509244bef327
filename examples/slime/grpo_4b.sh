#!/bin/bash
# GRPO of a 4B model: policy and engines take the same 8 GPUs in turn.
# memlint: gpu=H100-80GB
set -euo pipefail

MODEL_ARGS=(
   --swiglu
   --num-layers 36
   --hidden-size 2560
   --ffn-hidden-size 9728
   --num-attention-heads 32
   --group-query-attention
   --num-query-groups 8
   --kv-channels 128
   --qk-layernorm
   --normalization RMSNorm
   --disable-bias-linear
   --use-rotary-position-embeddings
   --rotary-base 1000000
   --vocab-size 151936
)
CHECKPOINT_ARGS=(
   --hf-checkpoint /root/Qwen3-4B
   --ref-load /root/Qwen3-4B_torch_dist
   --save /root/Qwen3-4B_grpo
   --save-interval 20
)
ROLLOUT_ARGS=(
   --prompt-data /root/math.jsonl
   --input-key prompt
   --label-key label
   --apply-chat-template
   --rm-type math
   --num-rollout 500
   --rollout-batch-size 32
   --n-samples-per-prompt 8
   --rollout-max-prompt-len 1024
   --rollout-max-response-len 8192
   --global-batch-size 256
)
TRAINING_ARGS=(
   --advantage-estimator grpo
   --use-kl-loss
   --optimizer adam
   --lr 1e-6
   --tensor-model-parallel-size 2
   --sequence-parallel
   --recompute-granularity full
   --recompute-method uniform
   --recompute-num-layers 1
   --use-dynamic-batch-size
   --max-tokens-per-gpu 9216
)
ENGINE_ARGS=(
   --rollout-num-gpus-per-engine 2
   --sglang-mem-fraction-static 0.7
)

ray job submit --address="http://127.0.0.1:8265" -- python3 train.py \
   --actor-num-nodes 1 \
   --actor-num-gpus-per-node 8 \
   --colocate \
   "${MODEL_ARGS[@]}" \
   "${CHECKPOINT_ARGS[@]}" \
   "${ROLLOUT_ARGS[@]}" \
   "${TRAINING_ARGS[@]}" \
   "${ENGINE_ARGS[@]}"
