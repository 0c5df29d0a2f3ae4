"""attn-doctor: examines the attention stack of a training node.

Public are the command line, the report format `attn-doctor/report/v1`, the recipe format and the exit statuses.
The Python modules are not: they may change in any release.
"""

__version__ = "0.1.0"
