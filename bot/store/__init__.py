"""Storage that outlives the process: refs/plangate/ on a git remote, and the service's PostgreSQL database."""
