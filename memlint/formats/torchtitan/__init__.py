"""TorchTitan: the TOML of its releases (0.1.0 to 0.2.2) and of the year before them. 0.3 takes Python instead.

`format.py` is the format. `config.py`: values, and which release a file is for. `keys.py`: the table of keys, which
`reading.py` reads where their meaning depends on others. `families.py`: the models by name and flavor. `behaviour.py`:
what the code does whatever a file says. `edits.py` writes changes back.
"""
