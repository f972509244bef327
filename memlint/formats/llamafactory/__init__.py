"""LLaMA-Factory.

`format.py` is the format; `v0.py` and `v1.py` make a run of its two layouts. `recognise.py`: is a file one of these.
`config.py`: one file with its versions; `releases.py`: which versions. `keys.py` and `keys_v1.py`: the tables of
keys; `model.py`, `method.py`, `loss.py`, `training.py` and `parallel.py` read the keys whose meaning depends on others.
`behaviour.py` and `families.py`: what the framework's code does whatever the file says. `edits.py` writes changes
back, `issues.py` reports on keys and values. Its own: `precision.py`, dtypes of what trains; `names.py`, lists of
module names; `shipped_deepspeed.py`, the DeepSpeed files that LLaMA-Factory ships.
"""
