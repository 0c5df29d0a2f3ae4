"""Samples: tiny forward and backward passes that show by behaviour what a version number only suggests.

sdpa_block.py is the plain attention block, whose own dtypes are looked at. catalogue.py lists the samples of
installed libraries, library_run.py runs them in a forked child under the dtype tracer, verdicts.py says what came
of each; x_transformers_models.py and transformers_models.py build them, for attention libraries their own files do.
"""
