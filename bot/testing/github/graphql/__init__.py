"""The GraphQL API of the simulated GitHub."""
