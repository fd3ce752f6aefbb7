"""A simulated Messages API: `server.ScriptedModel` serves it; policies use `reply` and `request_view`."""
