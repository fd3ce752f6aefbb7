"""The whole way on this machine: the story of one request, on the simulated world. SHELL."""
