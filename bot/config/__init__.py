"""Settings: the environment, the repository file, and the Action inputs, each read in one place."""
