"""The one place that wires the planes together: the life of a `lockgate serve` process.

`gateway.py`: start and stop, in order. `data_plane.py`: what clients connect to. `peering.py`: the gateway among the
others. `term.py`: the control plane, for as long as this gateway leads. `api.py`: REST.
"""

from gateway.app.gateway import StartError, run

__all__ = ["StartError", "run"]
