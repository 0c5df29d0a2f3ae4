"""Tells which operating system a log is of, by its paths and messages, and by what people say that they have."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.diagnose.log import hearsay
from attn_doctor.quick_patterns import when_used

_SYSTEM = when_used(
    r"(?P<Windows>(?<![\w/])[A-Za-z]:[/\\]{1,2}\w|\.pyd\b|win_amd64|\[WinError|DLL load failed"
    r"|(?:error|warning) (?:C\d{4}|LNK\d{4}|STL\d{4}|MSB\d{4})\b|\bMSVC\b|\bcl\.exe\b"
    r"|'cl_path'|\bvcvars|(?<!\w)Microsoft Visual (?:C\+\+|Studio)"
    r"|\blib\w{0,40}_cuda\d*\.dll\b|\w64_\d{1,3}\.dll\b|Windows SDK"
    r"|[/\\][Ll]ib[/\\]site-packages[/\\]"  # elsewhere the folder of a Python has its number in between
    r"|\bWindowsPath\(|ComfyUI_windows_portable|\bpython_embeded\b|\bpython\.exe\b|\bWindows-1[01]\b"
    r"|\d-windows\.post\d|\bos\.name\W{1,4}nt\b|\bOS: (?:Microsoft )?Windows\b(?![^\n]{0,40}\bWSL)|^PS [A-Z]:"
    r"|^\s{0,8}(?:sys\.)?platform(?: ?[:=] ?| )['\"]?win32\b"
    r"|^[A-Z]:[/\\]> ?\w|[/\\]lib\.win-amd64-|\bpy(?:\.exe)? -m pip\b)"
    r"|(?P<macOS>(?<![\w.:])/(?:Users|Library|(?:private/)?var/folders|opt/homebrew|usr/local/Cellar)/\w|macosx_\d"
    r"|\.dylib\b|\barm64-apple\b|\bDarwin\b|\bMPS backend\b"
    r"|'mps'|\bmps:\d|\bApple (?:M\d|[Ss]ilicon)\b|\bOS: macOS\b|\bmacOS-1\d"
    r"|\b(?:environment|machine|system|platform|laptop|computer) is (?:a |on )?macOS\b"
    r"|\b(?:[Oo]n|[Uu]sing) (?:my |a )?macOS\b)"
    # bitsandbytes looks in Linux's folders on every system
    r"|(?P<Linux>(?<![\w.:])(?<!WindowsPath\(')(?<!Searching )"
    # and Anaconda's installer for Macs takes a folder below /opt
    r"/(?!usr/bin/(?:clang|cc|c\+\+)(?![\w+-])|opt/(?:ana|mini)conda3/)(?:usr|home|root|opt|mnt|run/media|workspace|content|kaggle)/\.?\w"
    r"(?!\S{0,200}\.dylib)|(?<!\(`)linux[-_](?:x86_64|aarch64|gnu)"
    r"|\bLinux/|x86_64-conda[-_]linux|\bLinux-\d|\bOS: (?:Ubuntu|Debian|Linux)|-tegra\b"
    r"|(?<![\w.])/tmp/(?:tmpxft_|pip-)|\b(?:pytorch/pytorch|nvidia/cuda|runpod/pytorch):\d)"
)
#: What people say that they have; paths and messages are the better witnesses.
_SAID = when_used(
    r"(?P<Windows>\b(?:[Ww]in|[Ww]indows|WINDOWS)[ -]?1[01]\b"
    r"|\b(?:[Oo]n|[Uu]nder|[Uu]sing|[Rr]unning|my|have|[Nn]ative) (?:a |native )?[Ww]indows\b"
    r"(?![ -]?(?:of|size|sub|attention|\d|len|with (?:size|len|shift)|Subsystem))"
    r"|\b(?:OS|os|[Pp]latform|[Ss]ystem|系统)(?: (?:type|name|version))?\W{1,6}(?:is )?(?:Microsoft )?[Ww]in(?:dows)?\b"
    r"|\b[Ww]indows[ -](?:machine|PC|pc|laptop|user|server|desktop|system|portable|embedded)\b"
    r"|\b[Ww]indows[ -](?:[Cc]omfy[Uu][Ii]|[Pp]ower[Ss]hell)\b"
    r"|\b(?:unter|sous|su|em|en) Windows\b(?! ?(?:der|de|von|of)\b)"
    r"|在 ?[Ww]indows|[Ww]indows ?(?:系统|下|平台|环境|環境|上|で|版|에서|환경)|윈도우|(?:для|под|на) Windows\b"
    r"|^\W{0,4}Windows(?: 1[01])?\W{0,3}$|, ?Windows(?: 1[01])?(?=,|\.?$)"
    r"|(?<![\w\"'-])triton-windows(?:==| {1,20}v?)\d\.\d)"  # a release that is there, not one to be asked for
    r"|(?P<macOS>\b(?:[Oo]n|[Uu]sing|[Uu]se|[Hh]ave|[Ii]n) (?:my |an? )?(?:[Mm]ac ?OS|[Mm]ac|MAC|[Mm]ac[Bb]ook|iMac)\b"
    r"|\b(?:mac|Mac|MAC|Mac[Bb]ook)(?: (?:Pro|Air|Mini|mini|Studio))? (?:with )?[Mm][1-5]\b"
    r"|\bMac[Bb]ook (?:Pro|Air),? \(?(?:\d{4}\b|\d\d(?:[ -]inch|[\"”])|[Ii]ntel)|^\W{0,4}Mac[Bb]ook (?:Pro|Air)\b"
    r"|\b[Mm][1-5] (?:[Pp]ro|[Mm]ax|[Uu]ltra)\b"
    r"|(?<!needs )(?<!requires )(?<!from )(?<!for )\bmacOS [12]\d\.\d{1,2}\b(?!\+| or )"
    r"|\b(?:[Mm][1-5]|[Ii]ntel|[Aa]pple) (?:[Mm]ac|MAC)(?:[Bb]ook)?\b|\bmacbook(?: (?:pro|air))? m[1-5]\b"
    r"|\bmacOS (?:\d\d(?:\.\d{1,2})*,? )?(?:on )?(?:Apple )?M[1-5]\b"
    r"|^\W{0,4}[Mm]ac ?(?:OS|os|[Bb]ook)?(?: \d\d[\d.]{0,5})?\W{0,3}$"
    r"|@(?:[\w-]{0,20}-)?(?:MacBook|iMac|Mac-mini|Mac-Studio)\b"
    r"|mac(?:OS|os) ?(?:系统|版本|上|下|是|不)|(?:适合|我的|使用|在) ?[Mm]ac)"
    r"|(?P<Linux>\b(?:Ubuntu|ubuntu|Debian|Fedora|CentOS|RHEL|Rocky Linux|Linux Mint)(?: Linux| Server| LTS)? ?\d"
    r"|\b(?:[Oo]n|[Uu]nder|[Uu]se|[Uu]sing|and|or) (?:Linux|linux|Ubuntu|ubuntu)\b"
    r"|\b(?:OS|os|[Pp]latform|[Ss]ystem|系统)(?: (?:type|name|version))?\W{1,6}(?:is )?(?:Linux|linux|Ubuntu|ubuntu)\b)"
)
MAY_BE_SAID = (
    *("indows", "WINDOWS", "윈도우", "Win", "win", "buntu", "Debian", "Fedora", "CentOS", "RHEL", "Rocky", "inux"),
    *("mac", "Mac", "MAC", "pro", "Pro", "max", "Max", "ltra"),
)
#: Of these one stands in every line that it finds; looking for them takes a tenth of the time.
_MAY_BE_SYSTEM = (
    *(
        ":/",
        ":\\",
        ".pyd",
        "win_amd64",
        "[WinError",
        "DLL load",
        "error C",
        "warning C",
        " LNK",
        " STL",
        " MSB",
        "'cl_path'",
        "MSVC",
        "cl.exe",
        "win32",
    ),
    *(
        "vcvars",
        "Microsoft Visual",
        ".dll",
        "Windows",
        "os.name",
        "_windows_",
        "python_embeded",
        "comfyui-electron",
        "-windows.",
        "python.exe",
        "OS: ",
        "PS ",
        ":\\>",
        "lib.win-amd64",
        *("py -m pip", "py.exe -m pip"),
        "ib/site-packages",
        "ib\\site-packages",
    ),
    *("/Users/", "/Library/", "mps:", "Apple ", "macOS"),
    *("/var/folders/", "/opt/", "/usr/", "macosx_", ".dylib", "arm64-apple", "Darwin", "MPS backend", "'mps'"),
    *("/home/", "/root/", "/mnt/", "/run/media/", "/workspace/", "/content/", "/kaggle/", "inux", "-tegra", "tmpxft_"),
    *("/pip-", "/pytorch:", "/cuda:"),
)


def shown_in(text: str) -> str | None:
    """The system of the paths and messages of a line."""
    found = _SYSTEM.search(text, 0, 400) if any(map(text.__contains__, _MAY_BE_SYSTEM)) else None
    return found and str(found.lastgroup)


def said_in(text: str) -> Iterator[str]:
    """The systems that a person names in a line as what they have; MAY_BE_SAID has what stands in such a line."""
    for found in _SAID.finditer(text, 0, 400):
        if not hearsay.came_from(text, found.start()):
            yield str(found.lastgroup)
