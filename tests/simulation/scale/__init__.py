"""What many partitions cost the gateways of a fleet, each step apart: `python -m tests.simulation.scale`.

The product itself, brokers of the model, virtual time. CPU is the real one: some hundred times a second of it, it is
noted whose code runs (the node stands in a context variable). So what is counted is the gateways' own work, whatever
brokers and network would add; and time that passes is virtual, so that nothing of it is CPU.

With `--tables` nothing is copied (`table_engine.py`): 100,000 partitions before ten gateways are a matter of minutes.
"""
