"""A simulated GitHub: state, REST, GraphQL, webhooks and git smart HTTP, served over real HTTP on loopback."""
