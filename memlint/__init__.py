"""memlint: lints LLM training configs for GPU memory before a GPU is touched."""

__version__ = "0.1.0"
