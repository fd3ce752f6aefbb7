"""A simulated Messages API: `server.ScriptedModel` serves it, `reply` and `request` are what a policy speaks."""
