"""Texts that the bot owes to people on a thread: outcomes, replies, and notices, each posted exactly once."""
