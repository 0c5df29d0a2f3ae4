"""A package that was replaced under the process that had imported it."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.said_installed import put_in
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes import shelf

EVERY = (*shelf.bundled(), *shelf.families())
CELL = (
    "---------------------------------------------------------------------------\n"
    "ImportError                               Traceback (most recent call last)\n"
    "<ipython-input-5-12> in <module>\n----> 1 {asks}\n"
)
FROM = "/usr/local/lib/python3.10/dist-packages/transformers/{file}.py"
LACKS = (
    f"ImportError: cannot import name 'is_torch_fx_available' from 'transformers.file_utils' ({FROM.format(file='u')})"
)
HF = "from transformers import BertModel"
BROKEN = """Traceback (most recent call last):
  File "/e/lib/python3.10/site-packages/transformers/trainer.py", line 1838, in _inner_training_loop
    {line}
TypeError: Accelerator.unwrap_model() got an unexpected keyword argument 'keep_torch_compile'"""


def first(text: str) -> str:
    """The remedy that leads."""
    return explain_text(text, EVERY, FactSet()).diagnosis.findings[0].remedies[0].id


@pytest.mark.parametrize(
    ("log", "leads"),
    [
        (f"Successfully installed transformers-4.28.0\n{CELL.format(asks=HF)}{LACKS}", True),
        # 4.2.0 does not have the name: who asks for it is the package that was there before.
        (f"Successfully installed transformers-4.2.0\n{CELL.format(asks=HF)}{LACKS}", True),
        # The person's own line asks for it: that release does not have it.
        (
            "Successfully installed transformers-4.2.0\n"
            + CELL.format(asks="from transformers.file_utils import is_torch_fx_available")
            + LACKS,
            False,
        ),
        (f"Successfully installed peft-0.11.1\n{CELL.format(asks=HF)}{LACKS}", False),
        (f"Successfully installed transformers-4.28.0\n{LACKS}", False),  # no notebook
    ],
)
def test_a_cell_that_installs_what_was_imported(log: str, leads: bool) -> None:
    assert (first(log) == "restart-the-kernel") is leads


@pytest.mark.parametrize(
    ("line", "leads"),
    [
        ("# Skip past any already trained steps", True),
        ('"""', True),
        ("model = self.accelerator.unwrap_model(model, keep_torch_compile=False)", False),
        ('"""one of several lines""",', False),
    ],
)
def test_a_line_that_never_runs(line: str, leads: bool) -> None:
    assert (first(BROKEN.format(line=line)) == "start-the-process-anew") is leads


@pytest.mark.parametrize(
    ("file", "line", "leads"),
    [
        ("[{FROM}](https://{host}#) in _get_module(self, name)", '"""', True),
        ("{FROM} in _get_module(self, name)", "# what is imported later", True),
        ("[{FROM}](https://{host}#) in _get_module(self, name)", "from .generic import ModelOutput", False),
        ("<ipython-input-7-2f1a> in <module>", '"""', False),  # a cell of one's own, that ends a text there
    ],
)
def test_an_arrow_at_a_line_that_never_runs(file: str, line: str, leads: bool) -> None:
    """Colab writes the address of its page behind each file, and how many frames were left out."""
    host = "0abcdefghij-496ff2e9c6d22116-0-colab.example.org/outputframe.html?vrz=colab-20230503-060127-RC00_529051665"
    frame = file.format(FROM=FROM.format(file="file_utils"), host=host)
    log = CELL.format(asks=HF) + f"\n2 frames\n{frame}\n   2433 \n-> 2434     {line}\n   2435     if proxy:\n\n{LACKS}"
    assert (first(log) == "start-the-process-anew") is leads


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Successfully installed tokenizers-0.13.3 transformers-4.30.2", ["tokenizers", "transformers"]),
        ("!pip install -q -U 'transformers==4.30' peft[extra]>=0.4", ["transformers", "peft"]),
        ("%pip install torch_geometric", ["torch-geometric"]),
        ("pip install transformers", []),  # in a shell no process goes on beside it
        ("Please install it by !pip", []),
    ],
)
def test_what_was_put_in(line: str, names: list[str]) -> None:
    assert list(put_in(line)) == names
