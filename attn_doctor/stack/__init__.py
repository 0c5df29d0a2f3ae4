"""Finds releases that go together, before anything is installed.

What metadata does not say comes from the shelf: GPUs, drivers, the builds of torch, published wheels. Versions and
dependencies are left to uv or pip.
"""
