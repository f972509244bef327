"""Rules: read from their files or from the snapshot, indexed, and run on the analysis of a file."""
