"""A session's history: sending, cutting, compacting, and restoring it."""
