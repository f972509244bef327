"""torchtune (`tune run RECIPE --config FILE key=value ...`): OmegaConf's YAML with `_component_` entries, and overrides
over it.

`format.py` is the format. `config.py`: values, as verl's with another table. `recipes.py`: which recipe a file is for,
and which release. `models.py`: builders and the models that they build. `keys.py`: the table of keys, which
`training.py` and `parallel.py` read where their meaning depends on others. `behaviour.py`: what the recipes do whatever
the file says. `issues.py`: what they refuse. `edits.py` writes changes back.
"""
