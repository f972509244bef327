"""JSON Schema validation of config files, with messages for people."""
