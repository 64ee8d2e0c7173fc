"""One gateway as several processes (`workers` in the settings): a Python process takes no more than one core.

`supervisor.py` starts them and starts them again. Each is a whole gateway and a member of the fleet of its own
(`fleet/rules/membership.py`), so all that holds for several gateways holds for them, and nothing is shared. They
listen on the same ports (SO_REUSEPORT: the kernel gives each connection to one of them). The first one answers the API,
and asks the others for their part of it (`siblings.py`).
"""
