"""The evaluation of triage, in a form that others can repeat: cases with truth, perturbations, a scorer and baselines.

`make evaluate` draws the cases, judges them by tier of visibility, and writes truth, scores and a datasheet into one folder.
"""
