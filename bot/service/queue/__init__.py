"""The queue: what was answered with 202, and the checks that this leads to, in files or in PostgreSQL."""
