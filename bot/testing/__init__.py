"""The simulated world: servers that stand in for GitHub and the model, reached over real HTTP."""
