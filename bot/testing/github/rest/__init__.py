"""The REST API of the simulated GitHub: one module for each family of endpoints."""
