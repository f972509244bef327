"""Reports of a run in every output format, one file each; `outputs.py` lists them."""
