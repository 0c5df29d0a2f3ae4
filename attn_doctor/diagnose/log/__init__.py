"""Diagnoses logs from their text, the recipes and facts. Pure: text arrives in chunks; probe/logs.py reads the files.

chunks ──prefilter.py: finds candidate lines──▶ scan.py: windows of lines
       ──clean.py: removes additions of launchers and terminals──▶ cut.py: units
       ──literal_index.py: which patterns may stand──▶ match.py: units against patterns
       ──▶ facts.py: facts in the text──▶ causes.py: Diagnosis
"""
