"""Renders results as text, JSON and other formats. The only layer that prints.

`renderers/`: the formats, one file each; `picker.py` finds and chooses them. `terminal/`: pages for a person at a
terminal. `words/`: the wording that the formats share.
"""
