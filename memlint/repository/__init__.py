"""What lies around a config in its repository: discovery, git, pinned versions, launch commands, Python arguments."""
