"""Runs of the Trainer and its relatives that a Python script sets up, as the keys of the Trainer's table."""
