"""Storage that outlives the process: journal and transcripts on refs/plangate/ of a git remote."""
