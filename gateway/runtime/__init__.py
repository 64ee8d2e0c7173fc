"""The one place that wires the planes together: the life of a `lockgate serve` process.

`process.py`: the process and its signals. `gateway.py`: start and stop, in order. `data_plane.py`: what clients connect
to. `peering.py`: the gateway among the others. `naming.py`: its name. `term.py`: the control plane, for as long as it
leads. `api.py`: REST.
"""

from gateway.runtime.free_ports import StartError
from gateway.runtime.process import run

__all__ = ["StartError", "run"]
