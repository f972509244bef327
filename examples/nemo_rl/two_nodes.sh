#!/usr/bin/env bash
# The same on two nodes, as a Slurm job: NeMo-RL's ray.sub starts Ray on all nodes and runs the text of COMMAND.
set -euo pipefail

COMMAND="uv run examples/run_grpo.py --config grpo_8b.yaml cluster.num_nodes=2" \
sbatch --nodes=2 --gres=gpu:8 ray.sub
