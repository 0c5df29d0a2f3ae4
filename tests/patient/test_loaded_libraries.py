"""What a process has mapped, and what the libraries say: compiled stand-ins, loaded for real. No GPU is used."""

import shutil
import subprocess

import pytest

from attn_doctor.patient import loaded_libraries

MAPS = """\
55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 123 /env/bin/python3.11
7f0000000000-7f0000001000 r-xp 00000000 08:01 1 /env/a b/nvidia/cudnn/lib/libcudnn.so.9
7f0000001000-7f0000002000 rw-p 00001000 08:01 1 /env/a b/nvidia/cudnn/lib/libcudnn.so.9
7f0000002000-7f0000003000 r-xp 00000000 08:01 2 /usr/lib/libcudnn_ops.so.9.1.0
7f0000003000-7f0000004000 r-xp 00000000 08:01 3 /env/nvidia/cublas/lib/libcublasLt.so.12
7f0000004000-7f0000005000 r-xp 00000000 08:01 4 /env/torch/lib/libtorch_cuda.so
7f0000005000-7f0000006000 r-xp 00000000 08:01 5 /env/xformers.libs/libcudart-41118559.so.12
7f0000006000-7f0000007000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""


def test_the_kernels_list(tmp_path):
    """Each file once, parts told from the library itself; other libraries and nameless memory are left out."""
    (tmp_path / "maps").write_text(MAPS)

    assert loaded_libraries.mapped(str(tmp_path / "maps")) == [
        {"family": "cudnn", "main": True, "path": "/env/a b/nvidia/cudnn/lib/libcudnn.so.9"},
        {"family": "cudnn", "main": False, "path": "/usr/lib/libcudnn_ops.so.9.1.0"},
        {"family": "cublas", "main": False, "path": "/env/nvidia/cublas/lib/libcublasLt.so.12"},
    ]


def test_no_list(tmp_path):
    """Not the same as an empty one."""
    assert loaded_libraries.mapped(str(tmp_path / "maps")) is None


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Compiles a library of that name from C."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")

    def plant(name, code):
        folder = tmp_path_factory.mktemp("lib")
        (folder / "code.c").write_text(code)
        subprocess.run([compiler, "-shared", "-fPIC", folder / "code.c", "-o", folder / name], check=True, timeout=60)
        return str(folder / name)

    return plant


@pytest.mark.parametrize(
    ("family", "code", "version"),
    [
        ("cudnn", "unsigned long cudnnGetVersion(void){return 91002;}", "9.10.2"),
        ("cudnn", "unsigned long cudnnGetVersion(void){return 8907;}", "8.9.7"),
        ("cublas", "int cublasGetProperty(int t, int *v){*v = t == 0 ? 12 : t == 1 ? 8 : 4; return 0;}", "12.8.4"),
        ("nvrtc", "int nvrtcVersion(int *a, int *b){*a = 13; *b = 0; return 0;}", "13.0"),
        ("nccl", "int ncclGetVersion(int *v){*v = 22703; return 0;}", "2.27.3"),
        ("nccl", "int ncclGetVersion(int *v){*v = 2804; return 0;}", "2.8.4"),
    ],
)
def test_what_a_library_says(planted, family, code, version):
    """By the function that each has for it."""
    assert loaded_libraries.version(family, planted(f"lib{family}.so.9", code)) == {"version": version}


@pytest.mark.parametrize(
    "code",
    [
        "int nothing(void){return 0;}",
        "int cublasGetProperty(int t, int *v){return 1;}",
    ],
)
def test_a_library_that_says_none(planted, code):
    """A reason, not a version and no error."""
    assert set(loaded_libraries.version("cublas", planted("libcublas.so.12", code))) == {"reason"}


def test_in_an_examination(patient, planted):
    """The process that imported torch and ran its sample is read, and the library is asked in a child of its own."""
    sound = planted("libcudnn.so.9", "unsigned long cudnnGetVersion(void){return 90100;}")
    ends = planted("libnccl.so.2", "#include <stdlib.h>\nint ncclGetVersion(int *v){abort();}")
    (patient.stubs / "sitecustomize.py").write_text(
        f"import ctypes\nfor one in ({sound!r}, {ends!r}):\n    ctypes.CDLL(one)\n"
    )
    patient.examine(torch=True, sample=True, timeout=60)
    answer = patient.answers["loaded"]

    assert {one["path"] for one in answer["files"]} == {sound, ends}
    assert answer["versions"][sound] == {"version": "9.1.0"}
    assert "SIGABRT" in answer["versions"][ends]["reason"]
    assert {cell["outcome"] for cell in patient.answers["sample"]["cells"]} == {"ran"}
