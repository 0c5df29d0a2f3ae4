"""The formats, one file each: the file's name is the format's, and its RENDERER describes it.

`picker.py` finds these files; no other module names them. A file must load nothing slow before it writes, since all of
them are loaded for a list of formats.
"""
