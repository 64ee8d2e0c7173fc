"""Whatever `lockgate serve` runs takes clocks, random numbers and sockets from its `Host` or its event loop."""

import ast
from pathlib import Path

import pytest

GATEWAY = Path(__file__).resolve().parents[2] / "gateway"
ROOMS = (
    "api",
    "cutover",
    "fleet",
    "groups",
    "kafka",
    "mirror",
    "operations",
    "proxy",
    "runtime",
    "state",
    "topics",
    "transport",
)
BELOW = {
    "api/access/token_file.py": "the token of the door before it, made once when the server starts",
    "operations/secrets/sealing.py": "the nonce of a secret that is encrypted",
    "runtime/api.py": "uvicorn's socket",
    "runtime/free_ports.py": "the look whether a port is free, left out without plain sockets",
    "runtime/gateway.py": "the look whether a port is free, left out without plain sockets",
    "runtime/management.py": "uvicorn's socket",
    "runtime/memory.py": "malloc_trim, in the process around the gateway",
    "runtime/naming.py": "the machine's name, when none is set",
    "transport/host.py": "the seam itself",
    "transport/listening.py": "plain sockets",
    "transport/name_lock.py": "the kernel's lock on a name; a `Host` has another one",
    "transport/send_buffer.py": "plain sockets",
    "transport/pipes.py": "splicing",
    "kafka/connection/sasl.py": "the nonce of a login",
    "transport/wire.py": "plain sockets",
}
MODULES = {"datetime": {"now", "today", "utcnow"}, "random": None, "secrets": None, "socket": None, "time": None}
PASSIVE = {"gaierror", "IPPROTO_TCP", "SOL_SOCKET"}
FUNCTIONS = {"uuid1", "uuid4", "urandom", "getrandbits", "randbits"}


def found_in(tree):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            names = MODULES.get(called.value.id, set())
            if (names is None or called.attr in names) and called.attr not in PASSIVE:
                yield f"line {node.lineno}: {called.value.id}.{called.attr}()"
        if isinstance(called, ast.Name) and called.id in FUNCTIONS:
            yield f"line {node.lineno}: {called.id}()"


def modules():
    return sorted(str(path.relative_to(GATEWAY)) for room in ROOMS for path in (GATEWAY / room).rglob("*.py"))


@pytest.mark.parametrize("module", [each for each in modules() if each not in BELOW])
def test_nothing_above_the_seam_asks_the_machine(module):
    tree = ast.parse((GATEWAY / module).read_text(encoding="utf-8"))
    assert list(found_in(tree)) == []


def test_what_is_below_the_seam_is_there():
    assert set(BELOW) <= set(modules())


def test_a_clock_that_is_asked_directly_would_be_found():
    code = "import time, uuid\nfrom uuid import uuid4\nx = time.monotonic\ny = time.time()\nz = uuid4()"
    assert list(found_in(ast.parse(code))) == ["line 4: time.time()", "line 5: uuid4()"]
