"""Fixes: which changes make a run fit, what each costs, and how they are written into the files."""
