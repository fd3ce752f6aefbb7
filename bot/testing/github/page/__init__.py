"""The pages of the simulated GitHub, as people see them."""
