"""`attn-doctor recipes new ID`: writes a recipe to fill in; `recipes test` reports the parts that are still missing."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.recipes.build import TO_FILL_IN

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_MOST = 80

_TEXT = """\
format   = 1
id       = "{id}"
title    = "{todo} one line that says what is wrong; it may hold a fact, as in triton {{package.triton.version}}"
severity = "error"                           # what the facts or the text prove: error, warning or info
checked  = {today}                        # when you last held it against its sources
status   = "preview"                         # preview | stable | withdrawn
since    = "{version}"
rank     = 50                                # 10 driver ... 90 symptoms: the order in which findings are shown
what = "{todo} what is wrong here, in a sentence"
why = \"\"\"
{todo} why it happens: the mechanism, in two or three sentences.\"\"\"

[[reference]]
kind = "report"                              # report, fix, introduced, article, evidence, package, web
url  = "{todo} https://... where this can be read"

# How it shows in a log. Leave the table out when only facts can tell, and add [[when]] instead.
[[log]]
pattern  = '''{todo} a regular expression that is found in the message'''
confirms = true                              # the text alone proves it; false: offered as one possibility

# What facts tell it: all must hold. `attn-doctor recipes facts` lists them. Leave it out when only a log can tell.
# [[when]]
# fact     = "package.triton.version"
# affected = {{ introduced = "3.4.0", fixed = "3.7.1" }}

[[remedy]]                                   # in order of preference
id      = "what-to-do"
title   = "{todo} what fixes it, in a line"
safety  = "display-only"                     # safe | unsafe | display-only: whether `fix` may do it
why_this_safety = "A person decides."
actions = [{{ kind = "advise", text = "{todo} what to do, on this cluster" }}]
# expires = {expires}                      # after this day `recipes test` asks for another look at the remedy

# Its own tests, run by `attn-doctor recipes test`: a text that it finds, and one close to it that it leaves alone.
[[case]]
log    = "{todo} the message, as the program prints it"
expect = "finds"
[[case]]
log    = "{todo} a message that is close to it and means something else"
expect = "clears"
"""


def write(id_: str, folder: Path, library: str, *, since: str = "0.1.0") -> Path:
    """Writes the skeleton to `folder/library/id/recipe.toml` and returns its path.

    Raises BadInput for an invalid id or library, and for a file that exists or cannot be written.
    """
    for text, about in ((id_, f"recipes new {id_}"), (library, f"--library {library}")):
        if not _NAME.match(text) or len(text) > _MOST:
            raise BadInput(
                f"not a name: {text!r}",
                about=about,
                hint=f"Small letters, digits and single dashes, {_MOST} at most: triton-cache-on-slow-disk.",
            )
    file = folder / library / id_ / "recipe.toml"
    today = date.today()
    text = _TEXT.format(
        id=id_,
        todo=TO_FILL_IN,
        today=today.isoformat(),
        expires=(today.replace(year=today.year + 1, day=min(today.day, 28))).isoformat(),
        version=since,
    )
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise BadInput(
            "there is such a recipe already; nothing was written",
            about=f"file: {file}",
            hint="Give another id or folder, or edit that file.",
        ) from None
    except OSError as error:
        raise BadInput(
            f"the recipe cannot be written: {error.strerror}",
            about=f"file: {file}",
            hint="Name a folder that you may write to: attn-doctor recipes new ID --folder DIR",
        ) from None
    return file
