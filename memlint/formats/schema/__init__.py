"""JSON Schema validation of config files, and what its errors say to people."""
