"""The formats, a file each: the file's name is the format's, and its RENDERER says the rest.

What lies here is found by that (`picker.py`) and named nowhere else. A file loads nothing that costs time until it
writes, since all of them are read for a list of formats.
"""
