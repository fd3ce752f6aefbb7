"""The tools, one file for each. `registry` lists them."""
