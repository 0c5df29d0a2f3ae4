"""The doctor's side of looking: starts scripts of patient/, reads drivers, metadata, binaries, configs -> facts.

Reads, never writes.
"""
