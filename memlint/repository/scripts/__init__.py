"""Training launches in scripts: commands as documents that the formats read like any other file."""
