"""The demo: the story of one request from start to end, on the simulated GitHub. SHELL."""
