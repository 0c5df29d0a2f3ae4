"""Lines become units."""

from __future__ import annotations

from attn_doctor.diagnose.log.clean import clean
from attn_doctor.diagnose.log.cut import cut
from attn_doctor.diagnose.log.unit import Unit, UnitKind


def units(text: str) -> list[Unit]:
    return cut(clean(number, line) for number, line in enumerate(text.split("\n"), start=1))


def kinds(text: str) -> list[str]:
    return [unit.kind.value for unit in units(text)]


CHAIN = """\
Traceback (most recent call last):
  File "/env/site-packages/transformers/utils/import_utils.py", line 1778, in _get_module
    return importlib.import_module("." + module_name, self.__name__)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ImportError: /env/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 3, in <module>
    from transformers import LlamaForCausalLM
RuntimeError: Failed to import transformers.models.llama (look up to see its traceback):
something
"""


def test_a_chain_is_two_units_and_the_first_is_the_cause() -> None:
    """The exception that is printed first was raised first."""
    inner, outer = units(CHAIN)

    assert (inner.exception, inner.depth) == ("ImportError", 0)
    assert (outer.exception, outer.depth) == ("RuntimeError", 1)
    assert outer.text.endswith("something")
    assert [file for file, _ in outer.frames] == ["train.py"]


def test_frames_without_a_header_and_below_the_message() -> None:
    """People paste the message first, and leave the header out."""
    (unit,) = units('RuntimeError: it broke\nFile "/a/flash_attn_interface.py", line 52, in fwd\n  out = fwd(')

    assert unit.kind is UnitKind.TRACEBACK
    assert unit.exception == "RuntimeError"
    assert unit.frames == (("/a/flash_attn_interface.py", 52),)


def test_frames_without_a_header_that_are_indented() -> None:
    """As an issue quotes them: the exception stands two columns before the frames."""
    (unit,) = units(
        '        File "/a/nodes.py", line 3, in <module>\n          import what\n      ImportError: no what'
    )

    assert (unit.exception, unit.message.strip()) == ("ImportError", "ImportError: no what")


def test_a_message_pasted_as_deep_as_its_line_of_code() -> None:
    head = 'Traceback (most recent call last):\n  File "/a/vim.py", line 20, in <module>\n'
    (unit,) = units(
        f"{head}      **from attend import norm\n      ImportError: cannot import name 'norm' from 'attend'**"
    )

    assert unit.exception == "ImportError"


NOTEBOOKS = """\
RuntimeError                              Traceback (most recent call last)
<ipython-input-7-1a2b> in <module>
----> 1 run(q)

~/env/lib/python3.8/site-packages/attend/core.py in run(q, scale)
     40     if q is None:
---> 41         return fwd(q)
     42

3 frames
[/usr/lib/python3/dist-packages/attend/cuda.py](https://localhost:8080/#) in fwd(q)
      8 def fwd(q):
----> 9     raise Broken
"""


def test_a_notebook_s_traceback_is_one_unit() -> None:
    """Its source lines are numbered, blank lines stand between its frames, and its head names the class."""
    for end in ("", "\nRuntimeError: it broke"):
        (unit,) = units(NOTEBOOKS + end)

        assert unit.exception == "RuntimeError"
        assert [file.rpartition("/")[2] for file, _ in unit.frames] == ["<ipython-input-7-1a2b>", "core.py", "cuda.py"]
        assert end.strip() in unit.message


def test_source_lines_that_lost_their_indentation() -> None:
    """A logger that strips its lines hides nothing."""
    (unit,) = units('File "a.py", line 1, in f\nout = attend(q, k, v)\nRuntimeError: it broke')

    assert unit.exception == "RuntimeError"
    assert unit.lines[unit.message_at].text == "RuntimeError: it broke"


def test_every_sort_of_frame() -> None:
    """Python's, IPython's, pytest's, rich's."""
    texts = (
        '  File "/a/b.py", line 3, in f',
        "Cell In[60], line 22, in SageAttention.forward(self, x)",
        "File /a/b.py:106, in sageattn(q, k, v)",
        "a/b.py:126: in import_module",
        "/a/b.py:126 in import_module",
    )
    assert [len(unit.frames) for text in texts for unit in units(text)] == [1, 1, 1, 1, 1]


def test_reasons_belong_to_their_message() -> None:
    """xformers lists why it takes none of its operators: one unit."""
    (unit,) = units(
        "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n"
        "     query       : shape=(1, 2, 8, 40) (torch.float32)\n"
        "`cutlassF` is not supported because:\n"
        "    xFormers wasn't build with CUDA support\n"
    )
    assert "xFormers wasn't build" in unit.text


def test_an_exception_that_quotes_another_one() -> None:
    """`raised:` at the end of a line takes what is on the next one."""
    (unit,) = units("torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: inner")

    assert "inner" in unit.text


def test_kinds() -> None:
    """Each sort of line is called by its name."""
    assert kinds("/a/b.py:3: UserWarning: this is slow\n  warnings.warn(") == ["warning"]
    assert kinds("WARNING 03-20 12:00:00 [a.py:3] careful") == ["warning"]
    assert kinds("nvcc fatal   : Unsupported gpu architecture 'compute_120'") == ["compiler"]
    assert kinds("main.c:5:10: fatal error: Python.h: No such file or directory") == ["compiler"]
    assert kinds("/x.so: undefined symbol: _ZN3c10") == ["message"]
    assert kinds("ValueError: no") == ["message"]
    assert kinds("step 1\nstep 2") == ["line", "line"]
    assert kinds("") == []


def test_an_error_right_before_a_warning_is_its_own_unit() -> None:
    """What comes after a message is not part of it."""
    assert kinds("RuntimeError: a\nWARNING: b\nValueError: c") == ["message", "warning", "message"]


def test_pip_quotes_indented() -> None:
    """A traceback inside pip's tree is a traceback, its text without the tree's indentation."""
    tree = "      ╰─> [22 lines of output]"
    quoted = (
        '      Traceback (most recent call last):\n        File "setup.py", line 1, in <module>\n      OSError: no CUDA'
    )
    unit = units(f"{tree}\n{quoted}")[-1]

    assert unit.exception == "OSError"
    assert unit.text.startswith("Traceback")


def test_a_title_is_what_ended_the_traceback_that_was_cut_off() -> None:
    """A report's title says the error, and the traceback below it ends before it: its frames tell whose it is."""
    lines = [
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "",
        ">>> y = model(x)",
        "Traceback (most recent call last):",
        '  File "/e/lib/python3.10/site-packages/mamba_ssm/ops/selective_scan_interface.py", line 306, in inner_fn',
        "    return MambaInnerFn.apply(xz)",
    ]
    assert [bool(unit.exception and unit.frames) for unit in units("\n".join(lines))] == [True, False]


def test_a_title_beside_two_tracebacks_is_of_neither() -> None:
    """Which of them it ended is not known."""
    lines = [
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "",
        "one",
        "",
        "Traceback (most recent call last):",
        '  File "/e/a.py", line 3, in f',
        "    g()",
        "",
        "two",
        "Traceback (most recent call last):",
        '  File "/e/b.py", line 3, in f',
        "    g()",
    ]
    assert not any(unit.exception and unit.frames for unit in units("\n".join(lines)))


def test_an_exception_behind_an_empty_line_is_the_traceback_s() -> None:
    """A prefix of ranks and a paste put one in between; a warning, and what stands further below, is its own unit."""
    frames = '  File "/e/site-packages/flash_attn/interface.py", line 170, in forward\n    out = gpu.fwd(q)\n'

    (unit,) = units(f"{frames}\nRuntimeError: CUDA error: no kernel image is available")
    assert (unit.exception, unit.frames) == ("RuntimeError", (("/e/site-packages/flash_attn/interface.py", 170),))
    assert [one.exception for one in units(f"{frames}\nUserWarning: this is slow")] == ["", ""]
    assert units(f"{frames}\nRuntimeError")[0].exception == ""
    assert [one.exception for one in units(f"{frames}\n\n\n\nRuntimeError: another")] == ["", "RuntimeError"]
