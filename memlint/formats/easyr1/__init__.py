"""EasyR1 (`verl.trainer.main`), a fork of verl with keys of its own: OmegaConf's YAML and overrides over it.

`format.py` is the format. `config.py`: values, as verl's with another table. `keys.py`: the table of keys, which
`reading.py` reads where their meaning depends on others. `behaviour.py`: what the code does whatever the file says.
`edits.py` writes changes back.
"""
