"""Random faults, every kind of client and migrations in both directions at once, judged by `tests.checker`.

`make chaos DURATION=600 SEED=7`. What is done, and when, is worked out from the seed and the duration alone
(`plan.py`). CONTRIBUTING.md says how to read a run and how to repeat it.
"""
