"""Results -> words. The only layer that prints.

`renderers/`: the formats, a file each; `picker.py` finds and chooses them. `terminal/`: pages for a person at one.
`words/`: what is said, before it is dressed.
"""
