#!/bin/bash
# Full fine-tuning of a 7B model on one node, with the engine in a file beside this one.
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
# memlint: gpu=A100-80GB
set -euo pipefail

cd "$(dirname "$0")"
MODEL=${MODEL:-Qwen/Qwen2.5-7B}
MICRO_BATCH=${MICRO_BATCH:-8}
TOTAL_BATCH=128
GPUS=${SLURM_GPUS_ON_NODE:-8}

ARGS=(
    --model_name_or_path "$MODEL"
    --per_device_train_batch_size "$MICRO_BATCH"
    --gradient_accumulation_steps $((TOTAL_BATCH / MICRO_BATCH / GPUS))
    --model_max_length 4096
    --bf16 True
    --learning_rate 1e-5
    --num_train_epochs 3
    --output_dir "out/$(date +%Y%m%d)"
    --deepspeed zero2.json
)

torchrun --nproc_per_node "$GPUS" train_full.py "${ARGS[@]}"
