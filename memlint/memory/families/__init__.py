"""What transformers' code of each model family does to memory, one row per family; `lookup.py` finds a model's row."""
