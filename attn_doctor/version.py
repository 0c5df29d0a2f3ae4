"""The release; read from here by the build as well."""

__version__ = "0.2.0"
