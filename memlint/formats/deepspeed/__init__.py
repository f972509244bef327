"""DeepSpeed's configuration: an engine's file, alone or named by a training config.

`format.py` is the format. `recognise.py`: is a file one of these. `config.py`: one file's values. `keys.py`: the
table of keys. `edits.py` writes changes back. An engine has no model and no training method: `batch.py`,
`optimizer.py`, `precision.py` and `zero.py` read what it does have, and each reports its own issues.
"""
