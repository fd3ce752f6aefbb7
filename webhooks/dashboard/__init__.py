"""The dashboard: server-rendered pages that show people their threads and let them decide (W5)."""
