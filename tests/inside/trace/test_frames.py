

def test_a_shallow_stack() -> None:
    """Asked for a frame that is not there, as in autograd's own thread on a GPU, the outermost one answers."""
    outermost = frames.caller(10_000)

    assert outermost.f_back is None
    assert frames.caller(0).f_code.co_name == "test_a_shallow_stack"
