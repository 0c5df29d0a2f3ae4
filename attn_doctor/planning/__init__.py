"""From a diagnosis to a plan: which remedy each finding gets, and what the planned packages would bring up.

Changes nothing: what a plan does is carried out in fix/.
"""
