"""AutoTrain (autotrain-advanced) for language models: the YAML of `autotrain --config FILE`, and the flags of
`autotrain llm --train`.

AutoTrain trains with TRL's trainers, or with transformers' Trainer. `keys.py` names the argument of theirs that each of
its parameters becomes; `translate.py` makes a document of these, which the Trainer's format reads; then the rows that
have no such argument are read. `config.py`: one file or command. `issues.py`: what it refuses, and what it reads
nowhere. `releases.py`: what a release pins. `edits.py` writes changes back under AutoTrain's names.
"""
