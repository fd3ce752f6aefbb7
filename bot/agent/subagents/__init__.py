"""Sub-agents: their types, and the pool that runs them concurrently for one session."""
