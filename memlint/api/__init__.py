"""memlint as a library. `memlint/__init__.py` lists the public names."""
