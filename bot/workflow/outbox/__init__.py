"""What is owed to people on a thread: outcomes, replies, and notices, each posted exactly once."""
