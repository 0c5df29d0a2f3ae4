"""Samples: tiny forward and backward passes that show actual behaviour, where a version number only suggests it.

sdpa_block.py is the plain attention block, whose own dtypes are examined. catalogue.py lists the samples of installed
libraries, library_run.py runs them in a forked child under the dtype tracer, verdicts.py classifies the results;
x_transformers_models.py, transformers_models.py, and the files of attention libraries build them.
"""
