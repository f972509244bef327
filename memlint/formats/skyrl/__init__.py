"""SkyRL (`skyrl.train.entrypoints.main_base`, older: `skyrl_train.entrypoints.main_base`): overrides of a command.

`format.py` is the format. `config.py`: values, as verl's with another table, and the release that a command is for.
`keys.py`: the table of keys, which `reading.py` and `roles.py` (the models beside the policy, and what writes
completions) read where their meaning depends on others. `refused.py`: sizes that SkyRL refuses together.
`behaviour.py`: what the code does whatever a command says. `edits.py` writes changes back.
"""
