"""The nouns: facts, findings, targets of examination. Values only, no input or output."""
