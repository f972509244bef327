"""The Hugging Face Trainer and TRL.

`format.py` is the format. `recognise.py`: is a file one of these. `config.py`: one file with its versions;
`releases.py`: which versions. `keys.py`: the table of keys; `model.py`, `method.py`, `loss.py`, `training.py` and
`parallel.py` read the keys whose meaning depends on others. `behaviour.py` and `families.py`: what the framework's code
does whatever the file says. `edits.py` writes changes back, `issues.py` reports on keys and values. Its own:
`quantized.py`, what TRL does to a model in 4 or 8 bits.
"""
