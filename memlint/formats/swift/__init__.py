"""ms-swift: `swift sft`, `swift pt` and `swift rlhf` from command lines and from the YAML or JSON file that they take.

ms-swift trains with transformers' Trainer and with TRL's. `keys.py` names the argument of theirs that each of its keys
becomes; `translate.py` makes a document of these, which the Trainer's format reads; then the rows that have no such
argument are read. `config.py`: one file. `behaviour.py`: what ms-swift does whatever the file says. `edits.py` writes
changes back under ms-swift's names, `issues.py` reports on keys and values.
"""
