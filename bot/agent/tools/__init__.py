"""The tools: one tool, one file; `registry` lists them."""
