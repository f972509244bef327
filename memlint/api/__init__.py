"""memlint as a library. `memlint/__init__.py` says what of it is public."""
