"""Sub-agents. A call of Task (`pool.py`) becomes an `Assignment`, which survives a crash (`assignment.py`).

The pool gives the sub-agent a place and a toolhost (`siblings.py`), and a `SubagentRun` that drives its session and
recovers it from trouble (`run.py`). The result of the parent's call is the `SubagentReport` (`report.py`).
"""
