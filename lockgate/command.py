"""Where the `lockgate` command begins: with a look at the packages that it is made of."""

from __future__ import annotations

import sys

from lockgate import HiddenPackage, require_own_packages


def main() -> None:
    """Run the command, or end with exit code 1 and one line."""
    try:
        require_own_packages()
    except HiddenPackage as exc:
        sys.stderr.write(f"error: {exc}\n")
        sys.exit(1)
    from gateway.cli.main import main as run  # not before it is known whose it is

    run()
