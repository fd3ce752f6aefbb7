"""Data types and decision rules. Pure: no input or output, no waiting, no clock."""
