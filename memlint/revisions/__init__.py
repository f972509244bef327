"""The same files at two commits: what changed in their runs, findings and memory."""
