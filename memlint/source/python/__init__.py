"""Python scripts and notebooks, read as syntax trees: what a script would pass to a library, without running it."""
