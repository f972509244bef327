"""AReaL (`areal.launcher.local`, `examples/math/gsm8k_rl.py` and programs made with it): OmegaConf's YAML, and
overrides over it.

`format.py` is the format. `config.py`: values, as verl's with another table, what a file trains and the release that
it is for. `allocation.py`: the text that says how many GPUs each engine has. `keys.py`: the table of keys, which
`placement.py`, `training.py`, `batches.py` and `roles.py` (the models beside the actor, and what writes completions)
read where their meaning depends on others. `behaviour.py`: what the code does whatever the file says. `issues.py`:
keys and types, `mandatory.py`: values without a default, `refused.py` and `refused_engines.py`: what AReaL's own checks
refuse. `edits.py` writes changes back.
"""
