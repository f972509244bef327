"""Who reads a config: a framework's own parser, or a program of the repository, and what that program adds."""
