"""The command line. SHELL: parses, calls, and renders."""
