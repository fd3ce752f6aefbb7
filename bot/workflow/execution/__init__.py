"""The parts of approved work around its session: the brief, the set-up, and the checks with their commands."""
