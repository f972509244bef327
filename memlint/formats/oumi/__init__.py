"""Oumi: the YAML that `oumi train -c FILE` takes, merged into its dataclasses by OmegaConf.

Oumi trains with TRL's trainers, with transformers' Trainer or with a loop of its own. `keys.py` names the argument of
theirs that each of its keys becomes; `translate.py` makes a document of these, which the Trainer's format reads; then
the rows that have no such argument are read. `config.py`: one file. `engine.py`: its sections of FSDP and DeepSpeed, as
accelerate and DeepSpeed get them. `issues.py`: what it refuses. `edits.py` writes changes back under Oumi's names.
"""
