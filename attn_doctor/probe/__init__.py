"""The doctor's side of looking: starts scripts of inside/, reads drivers, metadata, binaries, configs -> facts.

Reads, never writes.
"""
