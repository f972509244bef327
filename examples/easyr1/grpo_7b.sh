#!/usr/bin/env bash
# GRPO of a 7B model with EasyR1: what the command sets lies over config.yaml.
set -euo pipefail

MODEL_PATH=Qwen/Qwen2.5-7B-Instruct

python3 -m verl.trainer.main \
    config=config.yaml \
    worker.actor.model.model_path="${MODEL_PATH}" \
    trainer.n_gpus_per_node=8
