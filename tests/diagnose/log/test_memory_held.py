"""Who fills the GPU, by torch's own count."""

from attn_doctor.diagnose.log.memory_held import held_by_others

_FULL = (
    "CUDA out of memory. Tried to allocate 48.00 MiB. GPU 0 has a total capacity of {} GiB of which 36.50 MiB is free. "
)
_COUNT = "Of the allocated memory {} is allocated by PyTorch, and 9.43 MiB is reserved by PyTorch but unallocated."


def _told(total: str, held: str, count: str) -> dict[str, str]:
    return dict(held_by_others(_FULL.format(total) + held + _COUNT.format(count)))


def test_the_process_that_speaks_is_no_other_one() -> None:
    of_two = "Process 1008 has 250.00 MiB memory in use. Process 1163 has 10.47 GiB memory in use. "
    assert _told("10.75", of_two, "9.69 GiB") == {}


def test_another_process_has_the_gpu() -> None:
    own = "Including non-PyTorch memory, this process has 1.38 GiB memory in use. "
    said = "Process 5463 has 43.11 GiB memory in use. " + own
    assert _told("44.53", said, "770.48 MiB") == {"memory_held_by": "5463"}
    in_a_container = "Process 41 has 2.16 GiB memory in use. Process 51 has 21.30 GiB memory in use. "
    assert _told("23.52", in_a_container, "1.52 GiB") == {"memory_held_by": "51"}


def test_ranks_of_one_program_are_alike() -> None:
    alike = "Process 81 has 23.10 GiB memory in use. Process 82 has 23.60 GiB memory in use. "
    assert _told("47.54", alike, "22.80 GiB")["memory_twin"] == "twin"


def test_nothing_is_said_where_the_own_process_is_not_known() -> None:
    assert _told("47.54", "Process 81 has 40.10 GiB memory in use. ", "1.00 GiB") == {}
    assert dict(held_by_others("CUDA out of memory. Tried to allocate 2.00 GiB")) == {}
    assert dict(held_by_others("Process 12 has 3.00 GiB memory in use.")) == {}
