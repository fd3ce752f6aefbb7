"""The command line. SHELL: parses, calls, renders."""
