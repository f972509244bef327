#!/bin/bash
# PPO of an 8B model with OpenRLHF: all models and vLLM share the cards.
# memlint: gpu=A100-80GB
set -euo pipefail

MODEL=${MODEL:-meta-llama/Llama-3.1-8B-Instruct}

python3 -m openrlhf.cli.train_ppo_ray \
    --actor.num_nodes 1 \
    --actor.num_gpus_per_node 8 \
    --ref.num_nodes 1 \
    --ref.num_gpus_per_node 8 \
    --critic.num_nodes 1 \
    --critic.num_gpus_per_node 8 \
    --reward.num_nodes 1 \
    --reward.num_gpus_per_node 8 \
    --vllm.num_engines 4 \
    --vllm.tensor_parallel_size 2 \
    --vllm.gpu_memory_utilization 0.5 \
    --vllm.enable_sleep \
    --ds.enable_sleep \
    --train.colocate_all \
    --actor.model_name_or_path "$MODEL" \
    --reward.model_name_or_path "$MODEL" \
    --data.max_len 4096 \
    --train.batch_size 128 \
    --train.micro_batch_size 2 \
    --rollout.batch_size 1024 \
    --rollout.micro_batch_size 4 \
    --ds.zero_stage 3 \
    --ds.packing_samples \
    --actor.gradient_checkpointing_enable \
    --algo.advantage.estimator gae \
    --data.prompt_dataset data/prompts.jsonl
