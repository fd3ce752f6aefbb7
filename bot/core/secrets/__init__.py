"""Detection of secrets, and their removal from every text. Pure."""
