"""verl: reinforcement learning (`verl.trainer.main_ppo`) and supervised fine-tuning from Hydra's YAML and overrides.

`format.py` is the format. `recognise.py`: is a document one of these. `config.py`: values with Hydra's layers and
interpolations. `keys.py` and `keys_sft.py`: the tables of keys; `model.py`, `rollout.py`, `batches.py` and
`parallel.py` read the keys whose meaning depends on others. `behaviour.py`: what verl's code does whatever the file
says. `edits.py` writes changes back, `issues.py` reports on keys and values.
"""
