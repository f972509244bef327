"""The `when:` language of rules: parsed, checked against the fields of a run and the keys of a file, compiled."""
