"""OpenRLHF: `train_ppo_ray`, `train_sft`, `train_rm`, `train_dpo` from the commands that start them.

Flags have sections since 0.10.2 (`--ds.zero_stage`); those before are the same without (`--zero_stage`). `keys.py` has
one row for both. `config.py`: the values of one command. `placement.py`: which models share GPUs. `engine.py`: the
DeepSpeed configuration that OpenRLHF writes. `batches.py`, `model.py` and `rollout.py` read what depends on several
flags. `behaviour.py`: what its code does whatever a command says. `edits.py` writes changes back as flags.
"""
