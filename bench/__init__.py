"""`make bench`: the gateway beside what a user would take instead, measured in one run on one machine.

Not in the wheel. It knows the gateway as its operator does (a settings file, REST, metrics, the process id); only the
micro-benchmarks and the raw clients use the `protocol` package. How to read the figures is in README.md here.
"""
