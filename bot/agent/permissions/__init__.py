"""What a session may do: modes, rules, and the check of shell lines."""
