"""slime: reinforcement learning with Megatron-LM and SGLang, from the commands that start `train.py`.

`config.py`: the arguments of one command over those of Megatron-LM, of which slime sets some itself. `keys.py`: slime's
own arguments beside Megatron-LM's table. `reading.py`: GPUs, batch and lengths. `roles.py`: the model, what stands
beside the policy, and the engines that write answers. `backend.py`: the engine that trains, Megatron-LM or slime's own
use of FSDP 2. `refused.py`: what slime refuses before it trains. `behaviour.py`: what its code does whatever a command
says. `edits.py` writes changes back.
"""
