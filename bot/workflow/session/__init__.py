"""The main agent's session of a stage: its start, what it is shown, its budget, its progress, and its saved work."""
