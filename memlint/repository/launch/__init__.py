"""Launch commands in a repository's scripts and documents: found, parsed, and applied to the config that they name."""
