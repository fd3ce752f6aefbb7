"""PostgreSQL: one pool of connections, and the numbered migrations. Only imported where a database is configured."""
