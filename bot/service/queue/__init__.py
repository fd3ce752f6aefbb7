"""The queue: what was answered with 202, and the looks that this leads to, in files or in PostgreSQL."""
