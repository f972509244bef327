"""Python scripts and notebooks of a repository as documents, one for each run that they start."""
