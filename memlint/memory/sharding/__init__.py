"""Where weights, gradients and optimizer states lie: on one GPU, under DDP, ZeRO, FSDP or model parallelism."""
