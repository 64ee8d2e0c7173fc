import socket

from gateway.doctor.machine import look_at_machine, look_at_port


def test_this_process() -> None:
    found = look_at_machine()
    assert found.files[0] != 0
    assert found.synchronised in (True, False, None)


def test_a_port_that_is_taken_and_given_back() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert look_at_port("api.port", "127.0.0.1", port).error == "Address already in use"
    assert look_at_port("api.port", "127.0.0.1", port).error == ""


def test_an_address_that_is_not_of_this_machine() -> None:
    assert look_at_port("api.port", "192.0.2.1", 9292).error
