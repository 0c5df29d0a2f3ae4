"""Puts into English what systems and compilers say in their user's language, where a recipe asks for it: Windows of a
DLL that does not load or a command that is none, a compiler of a file that is not there.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

#: Texts of which one stands in every line that is looked at.
_SIGNS = ("DLL load failed", "[WinError", "Error loading")
#: What a compiler puts before the file that it does not find, and the words behind it.
_FATAL = when_used(
    r"(?:致命错误|致命的エラー|schwerwiegender Fehler|erreur fatale|error fatal|erro fatal"
    r"|Фатальная ошибка|błąd krytyczny)"
    r"(?: ?: ?|：)"
)
_NO_FILE = when_used(
    r"没有那个文件或目录|沒有此一檔案或目錄|そのようなファイルやディレクトリはありません"
    r"|그런 파일이나 디렉터리가 없습니다"
    r"|Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce type|Нет такого файла или каталога"
    r"|No existe el (?:archivo|fichero) o el directorio|Arquivo ou diretório inexistente"
    r"|Nie ma takiego pliku ani katalogu|File o directory non esistente"
)

#: What Microsoft's linker says.
_NO_INPUT = when_used(
    r"无法打开(?:输入)?文件|無法開啟(?:輸入)?檔案|入力ファイル|Eingabedatei kann nicht geöffnet werden"
    r"|impossible d'ouvrir le fichier en entrée"
    r"|не удается открыть входной файл"
    r"|no se puede abrir el archivo de entrada|não é possível abrir o arquivo de entrada"
)

#: What Windows' command line says of a word that is no command; the word stands in quotes before it.
_NO_COMMAND = when_used(
    r"(?:不是内部或外部命令|不是內部或外部命令|は、内部コマンドまたは外部コマンド、?|은\(는\) 내부 또는 외부 명령"
    r"|n.est pas reconnu en tant que commande interne|no se reconoce como un comando interno o externo"
    r"|não é reconhecido como um comando interno|non è riconosciuto come comando interno o esterno"
    r"|не является внутренней или внешней(?: командой)?|nie jest rozpoznawan[aey] jako polecenie wewnętrzne"
    r"|ist entweder falsch geschrieben oder|iç ya da dış komut)[^\n]{0,200}"
)

#: What PowerShell says of such a word, which stands in its quotes.
_NO_CMDLET = when_used(
    r"(?:无法将|無法辨識|用語|Die Benennung|Le terme|El término|O termo|Имя)?"
    r"\s?[\"'“„«]\s?(?P<word>[\w.+-]{2,60})\s?[\"'”“»] ?"
    r"(?:项识别为 cmdlet|詞彙是否為 Cmdlet|は、コマンドレット|용어가 cmdlet|wurde nicht als Name eines Cmdlet"
    r"|n.est pas reconnu comme nom d.applet|no se reconoce como nombre de un cmdlet"
    r"|não é reconhecido como nome de cmdlet|не распознано как имя командлета)"
)

#: What a shell says of a process that a signal ended: the C library's words, and those of its memory image. A line
#: that is nothing else, but for the shell's own beginning and the command at its end.
_DUMPED = (
    r" ?[(（](?:核心已?转储|吐核|已?核心轉儲|核心已傾印|コアダンプ|코어 덤프됨|Speicherabzug geschrieben|core dumped"
    r"|[`'\"]?core'? generado|imagem do núcleo gravada|core dump creato"
    r"|(?:образ памяти|стек памяти) сброшен на диск|zrzut pamięci|çekirdek döküldü)[)）]"
)
_BEFORE = r"^(?P<before>\s*(?:\[\d+\] +\d+ )?(?:\S{1,80}: \S{1,8} ?\d+ ?: +\d+ )?)"
_SEGMENTATION = (
    r"(?:段错误|段錯誤|程式記憶體區段錯誤|区段错误|セグメンテーション違反(?:です)?|세그멘테이션 (?:오류|폴트)"
    r"|Speicherzugriffsfehler|Erreur de segmentation|Violación de segmento|Falha de segmentação|Errore di segmentazione"
    r"|Ошибка сегмент(?:ирования|ации)|Naruszenie ochrony pamięci|Parçalama arızası)"
)
_ABORTED = r"(?:已放弃|已中止|中止|Abgebrochen|Abandon|Abortado|Annullato|Аварийный останов|Przerwane)"
_CRASHED = when_used(rf"{_BEFORE}{_SEGMENTATION}(?:{_DUMPED})?(?=\s|$)")
_ABORTED_ITSELF = when_used(rf"{_BEFORE}{_ABORTED}{_DUMPED}(?=\s|$)")

#: English words -> the same in other languages.
_OTHERS = {
    "The specified module could not be found": (
        "找不到指定的模[块組组]",
        "指定されたモジュールが見つかりません",
        "지정된 모듈을 찾을 수 없습니다",
        "Das angegebene Modul wurde nicht gefunden",
        "Le module spécifié est introuvable",
        "No se (?:puede encontrar|encontró) el módulo especificado",
        "Impossibile trovare il modulo specificato",
        "Não foi possível encontrar o módulo especificado",
        "Не найден указанный модуль",
        "Nie można odnaleźć określonego modułu",
        "Belirtilen modül bulunamadı",
        "Kan opgegeven module niet vinden",
        # The Chinese one, read in another encoding than it was written in.
        "\ufffdҲ\ufffd{1,3}ָ\ufffd{3,5}ģ\ufffd{1,3}顣?",
    ),
    "The specified procedure could not be found": (
        "找不到指定的程序",
        "指定されたプロシージャが見つかりません",
        "지정된 프로시저를 찾을 수 없습니다",
        "Die angegebene Prozedur wurde nicht gefunden",
        "La procédure spécifiée est introuvable",
        "No se encontró el proceso especificado",
        "Impossibile trovare la procedura specificata",
        "Não foi possível encontrar o procedimento especificado",
        "Не найдена указанная процедура",
        "Nie można odnaleźć określonej procedury",
        "Belirtilen yordam bulunamadı",
        "\ufffdҲ\ufffd{1,3}ָ\ufffd{1,3}ĳ\ufffd{1,3}",
    ),
    "%1 is not a valid Win32 application": (
        "%1 不是有效的 Win32 应用程序",
        "%1 ist keine zulässige Win32-Anwendung",
        "%1 は有効な Win32 アプリケーションではありません",
        "%1 не является приложением Win32",
        "%1 n.est pas une application Win32 valide",
        "%1 no es una aplicación Win32 válida",
        r"%1은\(는\) 올바른 Win32 응용 프로그램이 아닙니다",
    ),
    "A dynamic link library (DLL) initialization routine failed": (
        r"动态链接库 ?\(DLL\) ?初始化例程失败",
        r"動態連結程式庫 ?\(DLL\) ?初始化例行程序失敗",
        r"ダイナミック リンク ライブラリ ?\(DLL\) ?初期化ルーチンの実行に失敗しました",
        "DLL 초기화 루틴을 실행할 수 없습니다",
        "Eine DLL-Initialisierungsroutine ist fehlgeschlagen",
        r"Произошел сбой в программе инициализации библиотеки динамической компоновки ?\(DLL\)",
    ),
    "The paging file is too small for this operation to complete": (
        "页面文件太小,? ?无法完成操作",
        "Die Auslagerungsdatei ist zu klein,? um diesen Vorgang durchzuführen",
        "ページング ファイルが小さすぎるため、?,? ?この操作を完了できません",
        "페이징 파일이 너무 작습니다",
        "Le fichier de pagination est insuffisant pour terminer cette opération",
        "El archivo de paginación es demasiado pequeño para completar la operación",
        "Файл подкачки слишком мал для завершения операции",
    ),
}
_SAID = tuple((when_used("|".join(others)), english) for english, others in _OTHERS.items())


#: Texts of which one stands in such a line, where all its letters are English ones.
_IN_ENGLISH_LETTERS = (
    *("DLL", "Error", "fatal"),
    *(" comando intern", "commande interne", "jako polecenie", "ist entweder falsch", "Die Benennung"),
    *("Speicherzugriffsfehler", "Erreur de segmentation", "Errore di segmentazione", "Abgebrochen (", "Abandon ("),
)
#: A line of a shell about a signal is short; other lines in such letters are what people write.
_LONGEST_OF_A_SHELL = 300


def may_be_a_systems_own_words(text: str) -> bool:
    """Whether the line is worth the search: a log is read line by line."""
    foreign = not text.isascii() and (": " in text or text[:1] in "'\"«" or len(text) <= _LONGEST_OF_A_SHELL)
    return foreign or any(sign in text for sign in _IN_ENGLISH_LETTERS)


def in_english(text: str) -> str:
    """The line with a system's own words in English."""
    if len(text) <= _LONGEST_OF_A_SHELL:
        text = _CRASHED.sub(r"\g<before>Segmentation fault (core dumped)", text)
        text = _ABORTED_ITSELF.sub(r"\g<before>Aborted (core dumped)", text)
    text = _NO_CMDLET.sub(r"The term '\g<word>' is not recognized as the name of a cmdlet", text)
    text = _NO_COMMAND.sub("is not recognized as an internal or external command", text)
    text = _NO_INPUT.sub("cannot open input file ", text)
    text = _NO_FILE.sub("No such file or directory", _FATAL.sub("fatal error: ", text))
    if not any(sign in text for sign in _SIGNS):
        return text
    for pattern, english in _SAID:
        text, count = pattern.subn(english, text, count=1)
        if count:
            break
    return text
