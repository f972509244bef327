"""Edits of a file's text, by syntax: comments, quoting and line endings stay as they are."""
