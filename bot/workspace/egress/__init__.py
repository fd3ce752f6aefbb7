"""The network policy: which hosts may be reached, at which addresses, and the two ways out that it guards (N1, N1a)."""
