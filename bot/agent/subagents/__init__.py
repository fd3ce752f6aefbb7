"""Sub-agents: types, and the crew that runs them side by side for one session."""
