"""What is a secret, and how it is kept out of every text; pure."""
