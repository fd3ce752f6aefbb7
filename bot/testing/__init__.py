"""The simulated world: servers that stand in for GitHub and the model, spoken to over real HTTP."""
