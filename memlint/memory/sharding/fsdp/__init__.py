"""PyTorch FSDP, versions 1 and 2: model state on each rank, and what is gathered together."""
