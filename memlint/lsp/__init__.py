"""The language server: shows the findings of `memlint check` in an editor while a config is typed (extra `lsp`).

server.py        the protocol: which message calls what
buffers.py       open documents, and the bytes of those that differ from their files
schedule.py      one thread for all work, the most urgent first
session.py       the linter that is kept between edits; the state of each open file
configuration.py converts the editor's settings to a request of the linter
positions.py     offsets of a text as an editor's lines and columns, and back
diagnostics.py, lens.py, hover.py, actions.py, completion.py: one kind of answer each, as a pure function
"""
