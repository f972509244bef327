"""DeepSpeed ZeRO, stages 0 to 3: model state on each rank, and what offload takes of host memory."""
