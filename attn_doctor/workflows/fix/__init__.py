"""Cures what `check` finds: `fix.py` has the order of events, the others what each of them needs."""
