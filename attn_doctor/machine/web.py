"""The one door to the network: whether an address has a file, and parts of it. Only for commands that ask for it.

What speaks HTTP and TLS is imported when it is asked: `fix` plans by what needs this module, and seldom asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attn_doctor.errors import AttnDoctorError
from attn_doctor.quick_dataclasses import dataclass

_AGENT = {"User-Agent": "attn-doctor"}


class Unreachable(AttnDoctorError):
    """The address gave no such answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a file."""

    data: bytes
    size: int
    """Of the whole file."""


def head(address: str, *, seconds: float) -> int:
    """The HTTP status that the address answers with. Raises Unreachable when it does not answer."""
    import urllib.error

    try:
        with _open(address, method="HEAD", headers={}, seconds=seconds) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def read_part(address: str, start: int, size: int, *, seconds: float = 30.0) -> Part:
    """Bytes of a file from `start` on; a negative start counts from its end. Raises Unreachable."""
    import urllib.error

    span = f"bytes={start}" if start < 0 else f"bytes={start}-{start + size - 1}"
    try:
        with _open(address, method="GET", headers={"Range": span}, seconds=seconds) as answer:
            whole = re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers.get("Content-Range", ""))
            if answer.status != 206 or whole is None:
                what = "the server sends no parts of files"
                raise Unreachable(what, about=without_secrets(address), hint="Download the file and name its folder.")
            return Part(data=answer.read(size), size=int(whole[1]))
    except urllib.error.HTTPError as error:
        raise Unreachable(f"the server answered {error.code}", about=without_secrets(address)) from None
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None


def without_secrets(address: str) -> str:
    """The address without a user's name and password."""
    return re.sub(r"(?<=://)[^/@\s]+@", "", address)


def host(address: str) -> str:
    """The host of an address."""
    return without_secrets(address).split("/")[2] if "://" in address else address


def _open(address: str, *, method: str, headers: Mapping[str, str], seconds: float):  # type: ignore[no-untyped-def]
    import urllib.error
    import urllib.request

    if not address.startswith(("https://", "http://")):
        raise Unreachable("that is no web address", about=without_secrets(address))
    request = urllib.request.Request(address, method=method, headers={**_AGENT, **headers})  # noqa: S310 -- see above
    try:
        return urllib.request.urlopen(request, timeout=seconds)  # noqa: S310
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> Unreachable:
    import ssl

    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        reason = f"its certificate is not trusted here ({reason.reason})"
    what = f"{host(address)} cannot be reached: {str(reason)[:160]}"
    return Unreachable(what, about=without_secrets(address), hint="Is there a network, or a proxy to name?")
