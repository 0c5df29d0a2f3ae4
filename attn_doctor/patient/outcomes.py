"""How attention calls, imports and samples end: the words of the answers. model/outcomes.py has the doctor's; a law
compares both.
"""

from __future__ import annotations

RAISES, MIXED, REPAIRED, CLEAN = "raises", "silently mixed", "promoted then repaired", "clean"
VERDICTS = (CLEAN, REPAIRED, MIXED, RAISES)
"""Of an attention call, from harmless to worst."""
BROKEN = (MIXED, RAISES)

IMPORTED, FAILED, TOLD = "imported", "failed", "told"
"""An import worked, or raised; a child sent a value."""
CRASHED, HUNG, UNASKED = "crashed", "hung", "unasked"
"""The process died, or did not end; nothing was tried, for a reason."""
RAN, RAISED = "ran", "raised"
"""A sample came to its end, or not."""
