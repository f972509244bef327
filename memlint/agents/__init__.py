"""memlint for agents: the server behind `memlint mcp` (the mcp extra)."""
