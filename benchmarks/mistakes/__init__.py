"""Mistakes in training configurations, each refused or dropped by the framework that it is for.

`python benchmarks/mistakes/generate.py` makes them with the frameworks installed; `benchmarks/corpus/mistakes.py`
counts how many memlint reports, with memlint alone.
"""
