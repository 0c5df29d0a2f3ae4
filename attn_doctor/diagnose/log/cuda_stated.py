"""What a log states of CUDA, its compiler and the driver, in the words of drivers, installers, builds and people."""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

_CUDA = r"(?P<value>\d{1,2}\.\d{1,2})(?![\d])"
_BY_TORCH = (
    r"(?:used to compile PyTorch|torch was compiled with|PyTorch has|Pytorch binaries were compiled with [Cc]uda)"
)
#: `CUDA 12.1`, `cuda: 11.8`, as people state what they have.
CUDA_STATED = when_used(
    r"\b(?:CUDA|[Cc]uda)(?:[ _](?:[Vv]ersion|toolkit))?(?: ?[:=]{1,2} ?| )?v?(?P<value>(?:9|1\d)\.\d{1,2})\b"
)
_FOLDER = r"[^\s'\":]{1,200}"
#: Statements about installed versions, and the toolkit's folder.
STATED = tuple(
    (sign, name, when_used(pattern))
    for sign, name, pattern in (
        ("river ", "driver.version", r"[Dd]river [Vv]ersion:? ?(?P<value>\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b"),
        ("Driver Version", "driver.cuda", rf"Driver Version: ?[\d.]{{1,12}}.{{0,20}}CUDA Version: ?{_CUDA}"),
        ("orch", "torch.cuda", rf"{_BY_TORCH} ?(?:CUDA[ _]Version)? ?[=:(]? ?{_CUDA}"),
        # CUDA_HOME as a list of folders, which makes a folder of headers and a path of nvcc that do not exist.
        (
            ":/",
            "log.cuda_home_meant",
            rf"(?:-I|(?<=['\" ]))(?=:/|/{_FOLDER}:/):?(?P<value>/{_FOLDER}?)(?::/\S{{0,200}}?)?/(?:include\b|bin/nvcc)",
        ),
        (" ", "cuda.nvcc", rf"(?:(?:detected|Installed) CUDA version \(?|, release (?=[\d.]{{3,5}}, V\d)){_CUDA}"),
    )
)
#: torch's own message: the CUDA release that the driver supports, in the encoding of cudaDriverGetVersion.
DRIVER_SPEAKS = when_used(r"\(found version (?P<number>\d{4,6})\)")
