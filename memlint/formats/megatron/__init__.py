"""Megatron-LM: `pretrain_gpt.py` from the commands that start it.

`config.py`: the arguments of one command. `model.py`: the model that they describe, all of it in arguments.
`parallel.py`: GPUs, degrees and batch. `engine.py`: precision, optimizer and recomputation. `issues.py`: what its own
checks refuse. An estimate is the least of the fullest pipeline stage (memory/sharding/pipeline.py).
"""
