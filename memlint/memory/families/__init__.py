"""What transformers' code of each model family does to memory, one row a family; `lookup.py` finds a model's row."""
