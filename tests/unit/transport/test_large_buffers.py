from gateway.transport.large_buffers import LargeBuffers

MB = 1024 * 1024


def test_a_buffer_is_used_again_when_no_part_of_it_is_looked_at() -> None:
    buffers = LargeBuffers()
    view = buffers.take(3 * MB - 5)
    assert len(view) == 3 * MB - 5
    part = view.toreadonly()[10:20]
    first = view.obj
    del view
    other = buffers.take(2 * MB)
    assert other.obj is not first, "a part is still looked at"
    del part
    assert buffers.take(3 * MB).obj is first


def test_no_more_is_kept_than_the_limit() -> None:
    buffers = LargeBuffers()
    views = [buffers.take(16 * MB) for _ in range(5)]
    assert len({id(view.obj) for view in views}) == 5
    kept = {id(view.obj) for view in views[:3]}
    views.clear()
    again = [buffers.take(16 * MB) for _ in range(3)]
    assert {id(view.obj) for view in again} == kept


def test_small_ones_are_their_own() -> None:
    buffers = LargeBuffers()
    view = buffers.take(1000)
    assert view.nbytes == len(view.obj) == 1000  # type: ignore[arg-type]
