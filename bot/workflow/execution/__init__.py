"""What approved work consists of besides its session: the brief, the set-up, and the checks with their commands."""
