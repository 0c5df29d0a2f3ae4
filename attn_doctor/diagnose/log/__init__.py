"""(log text, recipes, facts) -> diagnosis. Pure: text comes in as chunks, reading files is probe/logs.py's.

chunks ──prefilter.py: which lines are worth a look──▶ scan.py: windows of lines
       ──clean.py: what the launcher and the terminal added is taken off──▶ cut.py: units
       ──match.py: units against patterns──▶ facts.py: what the text tells──▶ explain.py: Diagnosis
"""
