"""Reads the repository around a config: discovery, git, pinned versions, launch commands, arguments of Python code."""
