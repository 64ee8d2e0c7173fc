"""Where the routes find the control plane: each term of leadership has its own, the application is built once."""

from __future__ import annotations

from collections.abc import Callable

from gateway.control_plane import ControlService

Plane = Callable[[], ControlService]
"""The control plane of the present term. Only asked while this gateway leads."""
