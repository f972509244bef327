"""accelerate's launch file: which engine, how many processes, which precision.

`format.py` is the format. `recognise.py`: is a file one of these. `keys.py`: the tables of keys. `parallel.py`: the
processes and the engine. `edits.py` writes changes back, `issues.py` reports what accelerate refuses. Its own:
`fsdp.py`, FSDP options as fields of a run, which the Trainer's `fsdp_config` shares; `fsdp_options.py`, the options
whose meaning depends on others.
"""
