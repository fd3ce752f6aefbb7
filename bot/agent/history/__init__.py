"""A session's history: what is sent, cut, compacted, and given again."""
