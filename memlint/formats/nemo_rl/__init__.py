"""NeMo-RL (`examples/run_grpo.py` and its siblings): OmegaConf's YAML over the files that `defaults` names, and
overrides over it.

`format.py` is the format. `config.py`: values, as verl's with inheritance. `keys.py`: the table of keys, which
`training.py`, `placement.py`, `batches.py` and `rollout.py` read where their meaning depends on others. `megatron.py`:
the other engine. `behaviour.py`: what the code does whatever the file says. `issues.py`: what it refuses. `edits.py`
writes changes back.
"""
