"""Asks the driver about every GPU, and reads the host meanwhile; writes both answers to files. Runs in its own process.

    python node_child.py ANSWER.json HOST     the GPUs; meanwhile, into HOST, what host_reads.py reads
    python node_child.py ANSWER.json state    the GPUs and their state: clocks, throttling, power, errors, load

Short, since a script is compiled at each start and what it imports is not.
"""

import os
import sys

#: Seconds that the readings of the host may take longer than the driver.
PATIENCE = 2.0


def main(file: str, what: str) -> None:
    """Neither a stuck driver nor a stuck adapter costs the other's answer."""
    sys.dont_write_bytecode = False  # as for all of attn-doctor: -B is for what others own
    import _thread

    import host_reads  # type: ignore[import-not-found]
    import nvml_reads  # type: ignore[import-not-found]

    sys.dont_write_bytecode = True
    sys.path.pop(0)  # this folder; its other files must not be importable as top-level modules
    done = _thread.allocate_lock()

    def read_host() -> None:
        import marshal  # json would import the regular expressions, which cost more than all the readings

        try:
            write(what, marshal.dumps(host_reads.read()))
        finally:
            done.release()

    if what != "state":
        done.acquire()
        _thread.start_new_thread(read_host, ())
    write(file, nvml_reads.answer(with_state=what == "state").encode())
    done.acquire(timeout=PATIENCE)  # a port whose firmware hangs: the process ends without it


def write(file: str, answer: bytes) -> None:
    """Whole or not at all."""
    with open(file + ".part", "wb") as handle:  # noqa: PTH123
        handle.write(answer)
    os.replace(file + ".part", file)  # noqa: PTH105


if __name__ == "__main__":
    main(*sys.argv[1:3])
