"""The fault matrix: stub packages that fail in every way that a compiled package can, each named as what it is."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SYMBOL = "_ZN3c104cuda9SetDeviceEi"
HANG = "import time\nwhile True:\n    time.sleep(0.01)\n"
SEGFAULT = "import ctypes\nctypes.string_at(0)\n"


class TestImported:
    def test_version_and_path(self, patient):
        """A package that imports is imported, with its version and its file."""
        path = patient.stub("flash_attn", "__version__ = '2.8.3'")
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["version"], found["path"]) == ("imported", "2.8.3", str(path))
        assert found["seconds"] >= 0

    def test_version_that_is_no_text(self, patient):
        """A __version__ that is not a string is no version."""
        patient.stub("flash_attn", "__version__ = (2, 8)")

        assert patient.examine("flash_attn")["flash_attn"]["version"] is None

    def test_message_without_end(self, patient):
        """A message of 200 KB without a blank is read like any other, and is no import that hangs."""
        patient.stub("flash_attn", "raise ImportError('A' * 200000 + '/x/a.so: undefined symbol: foo' + 'B' * 200000)")
        patient.stub("xformers", "raise ImportError('A.so' * 50000)")
        found = patient.examine("flash_attn", "xformers", timeout=20)

        assert (found["flash_attn"]["outcome"], found["xformers"]["outcome"]) == ("failed", "failed")
        assert found["flash_attn"]["undefined_in"].endswith("/x/a.so")

    def test_folder_left_behind(self, patient):
        """A folder without __init__.py imports too, and is told from a package."""
        (patient.stubs / "flash_attn").mkdir()
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["path"]) == ("imported", None)
        assert found["namespace"] == [str(patient.stubs / "flash_attn")]

    def test_twenty_megabytes_on_stdout(self, patient):
        """A package that prints megabytes, to both streams and past Python, is examined like any other."""
        patient.stub(
            "flash_attn",
            "import os, sys\nfor _ in range(320):\n    print('x' * 65536)\n    os.write(2, b'y' * 65536)\n"
            "print('the last line', file=sys.stderr)\n__version__ = '1'\n",
        )
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["version"]) == ("imported", "1")
        assert found["stderr"].endswith("the last line\n")
        assert len(found["stderr"]) <= 4096
        assert not list(patient.scratch.iterdir())

    def test_threads_and_exit_hooks_do_not_hold_the_child(self, patient):
        """Threads that never end and hooks that hang at exit are of no consequence."""
        patient.stub(
            "flash_attn",
            "import atexit, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
            "atexit.register(time.sleep, 60)\n",
        )
        found = patient.examine("flash_attn", timeout=8)["flash_attn"]

        assert found["outcome"] == "imported"

    def test_process_left_behind_is_ended(self, patient):
        """What a package started and left running ends with the child."""
        patient.stub(
            "flash_attn",
            "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
            f"open({str(patient.folder / 'pid')!r}, 'w').write(str(child.pid))\n",
        )
        found = patient.examine("flash_attn")["flash_attn"]
        pid = int((patient.folder / "pid").read_text())

        assert found["outcome"] == "imported"
        assert _gone(pid)


class TestFailed:
    def test_undefined_symbol(self, patient):
        """An undefined symbol is named, with the file that misses it."""
        patient.stub("flash_attn", f"raise ImportError('/x/flash_attn_2_cuda.so: undefined symbol: {SYMBOL}')")
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["error_type"]) == ("failed", "ImportError")
        assert (found["undefined_symbol"], found["undefined_in"]) == (SYMBOL, "/x/flash_attn_2_cuda.so")
        assert found["where"] == f"{patient.stubs}/flash_attn/__init__.py:1"

    def test_undefined_symbol_with_version(self, patient):
        """The version that the loader adds is no part of the symbol."""
        patient.stub(
            "flash_attn",
            "raise ImportError('/x/a.so: undefined symbol: cudaFoo, version libcudart.so.12')",
        )

        assert patient.examine("flash_attn")["flash_attn"]["undefined_symbol"] == "cudaFoo"

    def test_missing_library(self, patient):
        """A missing library is named."""
        patient.stub(
            "xformers",
            "raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')",
        )

        assert patient.examine("xformers")["xformers"]["missing_library"] == "libcudart.so.12"

    def test_glibc_too_old(self, patient):
        """A symbol version that the C library lacks is named, with the file that needs it."""
        patient.stub(
            "flash_attn",
            'raise ImportError("/lib/libc.so.6: version `GLIBC_2.32\' not found (required by /x/flash.so)")',
        )
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["missing_version"], found["missing_version_for"]) == ("GLIBC_2.32", "/x/flash.so")

    def test_missing_module(self, patient):
        """A package that is not there, and one that misses another, name what is missing."""
        patient.stub("fla", "import einops_that_is_not_there")
        found = patient.examine("fla", "flash_attn")

        assert found["flash_attn"]["missing_module"] == "flash_attn"
        assert found["fla"]["missing_module"] == "einops_that_is_not_there"
        assert {f["outcome"] for f in found.values()} == {"failed"}

    def test_root_of_a_chain(self, patient):
        """Of a chain of errors the root is reported, and what was raised in the end is kept."""
        patient.stub(
            "xformers",
            "try:\n    raise OSError('/x/_C.so: undefined symbol: foo')\n"
            "except OSError:\n    raise RuntimeError('xformers cannot be used')\n",
        )
        found = patient.examine("xformers")["xformers"]

        assert (found["error_type"], found["undefined_symbol"]) == ("OSError", "foo")
        assert found["raised"] == {"error_type": "RuntimeError", "error": "xformers cannot be used"}

    def test_fallback_import_is_no_root(self, patient):
        """`except ImportError: import other` fails for want of the other, not of the first."""
        patient.stub("fla", "try:\n    import absent_one\nexcept ImportError:\n    import absent_other\n")

        found = patient.examine("fla")["fla"]

        assert found["missing_module"] == "absent_other"
        assert "absent_other" in found["error"]

    def test_keyboard_interrupt_of_a_module(self, patient):
        """A KeyboardInterrupt that a module raises is its failure, not somebody's Ctrl-C."""
        patient.stub("flash_attn", "raise KeyboardInterrupt")
        found = patient.examine("flash_attn", "json")

        assert (found["flash_attn"]["outcome"], found["flash_attn"]["error_type"]) == (
            "failed",
            "KeyboardInterrupt",
        )
        assert found["json"]["outcome"] == "imported"

    def test_long_error(self, patient):
        """Of a long error the last lines are kept."""
        patient.stub("flash_attn", "raise ImportError('\\n'.join(str(n) for n in range(5000)))")
        found = patient.examine("flash_attn")["flash_attn"]

        assert found["error"].splitlines() == [str(n) for n in range(4990, 5000)]


class TestCrashed:
    def test_segfault(self, patient):
        """A segmentation fault stays in its child, and tells its signal and its line."""
        path = patient.stub("flash_attn", SEGFAULT)
        found = patient.examine("flash_attn", "json")

        crashed = found["flash_attn"]
        assert (crashed["outcome"], crashed["signal"], crashed["signal_name"]) == (
            "crashed",
            signal.SIGSEGV,
            "SIGSEGV",
        )
        assert crashed["where"] == f"{path}:2", "not the line of ctypes that died"
        assert found["json"]["outcome"] == "imported"

    def test_error_of_the_standard_library(self, patient):
        """An error raised in the standard library is placed at the line of the package that called it."""
        path = patient.stub("flash_attn", "import ctypes\n\nctypes.CDLL('libcudart.so.99')\n")
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["where"]) == ("failed", f"{path}:3")

    def test_abort_with_a_message(self, patient):
        """An abort keeps what was written last."""
        patient.stub("triton", "import os\nos.write(2, b'LLVM ERROR: no such target\\n')\nos.abort()\n")
        found = patient.examine("triton")["triton"]

        assert (found["outcome"], found["signal_name"]) == ("crashed", "SIGABRT")
        assert "LLVM ERROR: no such target" in found["stderr"]

    @pytest.mark.parametrize(
        ("source", "status", "how"),
        [
            ("import os\nos._exit(0)\n", 0, "os._exit"),
            ("import os\nos._exit(3)\n", 3, "os._exit"),
            ("import sys\nsys.exit()\n", 0, "sys.exit(None)"),
            ("import sys\nsys.exit('no GPU')\n", 1, "sys.exit('no GPU')"),
        ],
    )
    def test_leaving_the_process(self, patient, source, status, how):
        """A package that leaves the process, even with status 0, was not imported, and how it left is told."""
        patient.stub("flash_attn", source)
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["exit_status"]) == ("crashed", status)
        assert how in found["how"]

    def test_loader_ends_the_process(self, patient):
        """The symbol that the loader names when it ends a process by itself is found."""
        patient.stub(
            "flash_attn",
            "import os\nos.write(2, b'python: symbol lookup error: /x/a.so: undefined symbol: foo\\n')\n"
            "os._exit(127)\n",
        )

        assert patient.examine("flash_attn")["flash_attn"]["undefined_symbol"] == "foo"

    def test_no_core_is_dumped(self, patient):
        """No crash leaves a file behind."""
        patient.stub("flash_attn", "import resource\n__version__ = str(resource.getrlimit(resource.RLIMIT_CORE))\n")
        patient.stub("crashes", SEGFAULT)
        found = patient.examine("flash_attn", "crashes")

        assert found["flash_attn"]["version"] == "(0, 0)"
        assert not list(patient.scratch.iterdir())


class TestHung:
    def test_where_it_hung(self, patient):
        """A package that hangs is ended at its timeout, and the line is told."""
        path = patient.stub("flash_attn", HANG)
        found = patient.examine("flash_attn", "json", timeout=2)

        hung = found["flash_attn"]
        assert hung["outcome"] == "hung"
        assert hung["where"] in (f"{path}:2", f"{path}:3")
        assert 2 <= hung["seconds"] < 3
        assert found["json"]["outcome"] == "imported"

    def test_deaf_to_signals(self, patient):
        """One that ignores every signal, and has children that hang with it, is ended as well."""
        patient.stub(
            "flash_attn",
            "import os, signal, time\nfor number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):\n"
            "    signal.signal(number, signal.SIG_IGN)\npid = os.fork()\n"
            f"if pid:\n    open({str(patient.folder / 'pid')!r}, 'w').write(str(pid))\n" + HANG,
        )
        found = patient.examine("flash_attn", timeout=2)["flash_attn"]

        assert found["outcome"] == "hung"
        assert _gone(int((patient.folder / "pid").read_text()))

    def test_endless_output(self, patient):
        """One that prints without end fills neither memory nor disk."""
        patient.stub("flash_attn", "while True:\n    print('x' * 1000)\n")
        found = patient.examine("flash_attn", timeout=2)["flash_attn"]

        assert found["outcome"] == "hung"
        assert len(found["stdout"]) <= 4096
        assert not list(patient.scratch.iterdir())

    def test_many_at_once(self, patient):
        """Hanging packages wait out their timeouts side by side."""
        names = [f"hangs_{n}" for n in range(4)]
        for name in names:
            patient.stub(name, HANG)
        found = patient.examine(*names, timeout=2, jobs=4)

        assert {f["outcome"] for f in found.values()} == {"hung"}
        assert patient.seconds < 6

    def test_children_end_with_the_examination(self, patient):
        """When the examination is ended from outside, so are its children."""
        pid_file = patient.folder / "pid"
        patient.stub("flash_attn", f"import os\nopen({str(pid_file)!r}, 'w').write(str(os.getpid()))\n" + HANG)
        request = {"task": "examine", "modules": ["flash_attn"], "timeout": 30, "scratch": str(patient.scratch)}
        with pytest.raises(subprocess.TimeoutExpired):
            patient.run(request, timeout=2)

        assert _gone(int(pid_file.read_text()))


class TestTorch:
    @pytest.fixture
    def request_with_torch(self, patient):
        return {
            "task": "examine",
            "modules": ["flash_attn", "json"],
            "timeout": 3,
            "scratch": str(patient.scratch),
            "torch": True,
            "sample": True,
        }

    def test_raises(self, patient, request_with_torch):
        """A torch that raises is said to have failed, and the rest is examined all the same."""
        patient.stub("torch", "raise OSError('libcudart.so.13: cannot open shared object file: No such file')")
        patient.stub("flash_attn", "import torch")
        done = patient.run(request_with_torch)
        answers = patient.answers

        assert done.returncode == 0, done.stderr
        assert (answers["torch"]["outcome"], answers["torch"]["missing_library"]) == ("failed", "libcudart.so.13")
        assert answers["import-flash_attn"]["missing_library"] == "libcudart.so.13"
        assert answers["import-json"]["outcome"] == "imported"
        assert (answers["cuda"]["is_available"], answers["cuda"]["reason"]) == (None, "torch could not be imported")
        assert answers["sample"] == {"cells": [], "reason": "torch could not be imported"}
        assert "done" in answers

    def test_half_imported_torch_is_not_tried_again(self, patient, request_with_torch):
        """Packages that need a torch that failed are told its own error, not that of a second attempt."""
        patient.stub(
            "torch",
            "import sys, json\nif hasattr(json, 'once'):\n    raise RuntimeError('already has a docstring')\n"
            "json.once = True\nraise ImportError('numpy is broken')\n",
        )
        patient.stub("flash_attn", "import torch")
        patient.run(request_with_torch)

        assert patient.answers["import-flash_attn"]["error"] == "numpy is broken"

    def test_leaves_the_process(self, patient, request_with_torch):
        """A torch that calls sys.exit does not end the examination."""
        patient.stub("torch", "import sys\nsys.exit(0)\n")
        patient.run(request_with_torch)

        assert (patient.answers["torch"]["outcome"], patient.answers["torch"]["exit_status"]) == ("crashed", 0)
        assert patient.answers["import-json"]["outcome"] == "imported"

    def test_segfaults(self, patient, request_with_torch):
        """A torch that segfaults ends the process: told by the signal, the frames, and the answers that are there."""
        path = patient.stub("torch", SEGFAULT)
        done = patient.run(request_with_torch)

        assert done.returncode == -signal.SIGSEGV
        assert set(patient.answers) == {"started", "torch-started"}
        assert f'File "{path}", line 2' in done.stderr
        assert not list(patient.scratch.iterdir())

    def test_hangs(self, patient, request_with_torch):
        """A torch that hangs says where before the doctor's patience ends."""
        path = patient.stub("torch", HANG)
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            patient.run(request_with_torch, timeout=4)

        stderr = (caught.value.stderr or b"").decode()
        assert f'File "{path}", line ' in stderr
        assert {p.stem for p in patient.answers_dir.glob("*.json")} == {"started", "torch-started"}

    def test_prints_megabytes(self, patient, request_with_torch):
        """A torch that prints megabytes is as good as any other: answers are files."""
        patient.stub("torch", "print('x' * 20_000_000)\nraise ImportError('no')\n")
        patient.run(request_with_torch)

        assert patient.answers["torch"]["outcome"] == "failed"

    def test_is_not_there(self, patient):
        """Without a torch the answers say that there is none."""
        patient.examine("json", torch=False, sample=True)

        assert patient.answers["cuda"]["reason"] == "there is no torch"
        assert patient.answers["sample"]["reason"] == "there is no torch"
        assert "torch" not in patient.answers


class TestSurroundings:
    def test_home_that_cannot_be_written(self, patient):
        """A HOME that is no folder, and one that is missing, change nothing."""
        patient.stub("flash_attn", "__version__ = '1'")
        request = {"task": "examine", "modules": ["flash_attn"], "timeout": 5, "scratch": str(patient.scratch)}
        for home in ("/dev/null", str(patient.folder / "nowhere")):
            done = patient.run(request, env={"HOME": home})
            assert (done.returncode, done.stderr) == (0, "")
            assert patient.answers["import-flash_attn"]["outcome"] == "imported"

    def test_nothing_is_compiled_beside_the_patients_files(self, patient):
        """No __pycache__ appears in the patient's packages."""
        patient.stub("flash_attn", "__version__ = '1'")
        patient.examine("flash_attn")

        assert not list(patient.stubs.rglob("__pycache__"))

    def test_children_that_are_reaped_by_the_kernel(self, patient):
        """Started by a launcher that ignores SIGCHLD, it still knows how its children ended."""
        patient.stub("flash_attn", SEGFAULT)
        before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            patient.stub("sitecustomize", "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n")
            found = patient.examine("flash_attn")["flash_attn"]
        finally:
            signal.signal(signal.SIGCHLD, before)

        assert found["signal_name"] == "SIGSEGV"

    def test_no_child_can_be_started(self, patient):
        """Where the limit of processes is reached the answer is that nobody looked, with the reason."""
        patient.stub(
            "sitecustomize",
            "import os\ndef fork():\n    raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
            "os.fork = fork\n",
        )
        found = patient.examine("json")["json"]

        assert found["outcome"] == "unasked"
        assert "Resource temporarily unavailable" in found["reason"]

    def test_arguments_of_ours_are_not_the_packages(self, patient):
        """A package that reads sys.argv on import does not find our request."""
        patient.stub("flash_attn", "import sys\nassert len(sys.argv) == 1, sys.argv\n")

        assert patient.examine("flash_attn")["flash_attn"]["outcome"] == "imported"

    def test_other_pythons(self, other_patient):
        """The whole matrix in short, on an older and a newer Python without torch."""
        path = other_patient.stub("crashes", SEGFAULT)
        hangs = other_patient.stub("hangs", HANG)
        other_patient.stub("fails", f"raise ImportError('/x/a.so: undefined symbol: {SYMBOL}')")
        other_patient.stub("leaves", "import os\nos._exit(0)\n")
        found = other_patient.examine("crashes", "hangs", "fails", "leaves", "json", timeout=2)

        assert {name: f["outcome"] for name, f in found.items()} == {
            "crashes": "crashed",
            "hangs": "hung",
            "fails": "failed",
            "leaves": "crashed",
            "json": "imported",
        }
        assert str(path) in [f["file"] for f in found["crashes"]["frames"]]
        assert found["hangs"]["where"].startswith(f"{hangs}:")
        assert found["fails"]["undefined_symbol"] == SYMBOL


def _gone(pid):
    """The process has ended, if it may be only a moment ago, and perhaps was not reaped yet."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return False


NO_DRIVER = [
    "raise RuntimeError('0 active drivers ([]). There should only be one.')",
    "raise ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')",
    "raise RuntimeError('Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU')",
    (
        "try:\n    raise OSError('libnvidia-ml.so.1: cannot open shared object file')\n"
        "except OSError as error:\n    raise ImportError('the extension could not be loaded') from error"
    ),
]


class TestWantsAGpu:
    @pytest.mark.parametrize("source", NO_DRIVER)
    def test_is_tried_again_with_one(self, patient, source):
        """An import that only wants a GPU is tried once more where one is simulated; both endings are told."""
        patient.stub("flash_attn", source)
        found = patient.examine("flash_attn")["flash_attn"]

        assert (found["outcome"], found["with_a_gpu"]["outcome"]) == ("failed", "failed")

    def test_one_that_asks_torch(self, patient):
        """With the GPU simulated such an import comes to its end."""
        patient.stub("flash_attn", "import torch\nname = torch.cuda.get_device_name(0)\n")
        found = patient.examine("flash_attn", torch=True, timeout=60)["flash_attn"]

        assert (found["outcome"], found["with_a_gpu"]["outcome"]) == ("failed", "imported")

    @pytest.mark.parametrize(
        "source", ["raise ImportError('libcudart.so.12: cannot open shared object file')", "1 / 0"]
    )
    def test_another_failure_is_not(self, patient, source):
        """A package that lacks CUDA's runtime lacks it with a GPU too."""
        patient.stub("flash_attn", source)

        assert "with_a_gpu" not in patient.examine("flash_attn")["flash_attn"]
