"""The REST API of the simulated GitHub: one module per family of endpoints."""
