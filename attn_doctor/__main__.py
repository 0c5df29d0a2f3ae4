"""`python -m attn_doctor`: examines the interpreter it was started with, whatever is activated."""

from __future__ import annotations

import sys

from attn_doctor.cli.main import main

if __name__ == "__main__":
    sys.exit(main(as_module=True))
