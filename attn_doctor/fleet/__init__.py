"""Combines the reports of many nodes into one verdict: missing nodes, failing nodes, and nodes that differ from the
others.
"""
