#!/usr/bin/env bash
# GRPO of a 7B model with SkyRL: policy, reference and vLLM take the same eight GPUs in turn.
# memlint: gpu=H100-80GB
set -euo pipefail

NUM_GPUS=8

uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base \
    trainer.policy.model.path=Qwen/Qwen2.5-7B-Instruct \
    trainer.strategy=fsdp \
    trainer.placement.colocate_all=true \
    trainer.placement.policy_num_gpus_per_node=$NUM_GPUS \
    trainer.placement.ref_num_gpus_per_node=$NUM_GPUS \
    trainer.train_batch_size=512 \
    trainer.policy_mini_batch_size=128 \
    trainer.micro_train_batch_size_per_gpu=4 \
    trainer.micro_forward_batch_size_per_gpu=8 \
    trainer.max_prompt_length=1024 \
    generator.sampling_params.max_generate_length=3072 \
    generator.n_samples_per_prompt=8 \
    generator.inference_engine.num_engines=4 \
    generator.inference_engine.tensor_parallel_size=2 \
    generator.inference_engine.gpu_memory_utilization=0.7
