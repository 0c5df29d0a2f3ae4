"""The probes: start scripts of patient/, read drivers, package metadata, binaries and configurations, and return facts.

Reads only, never writes.
"""
