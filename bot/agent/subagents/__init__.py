"""Sub-agents. A call of Task (`pool.py`) becomes an `Assignment`, which survives a crash (`assignment.py`).

The pool gives it a place and a toolhost (`siblings.py`) and a `SubagentRun`, which drives its session and recovers it
from trouble (`run.py`). What it has to say is its `SubagentReport` (`report.py`), the result of the parent's call.
"""
