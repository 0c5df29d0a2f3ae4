"""Adds in English what a person tells of pictures, numbers and text in another language: the recipes know a symptom by
English words, so each is put into other languages here and nowhere else.
"""

from __future__ import annotations

from attn_doctor.quick_patterns import when_used

#: A longer line was printed by a program.
_LONGEST = 400
#: Words of which one stands in every such line whose letters are English ones.
_IN_ENGLISH_LETTERS = (
    "Bild",
    "schwarz",
    "Rausch",
    "imagen",
    "imagem",
    "immagin",
    "noire",
    "bruit",
    "ruido",
    "nan",
    "NaN",
)

#: What is added in English -> the same as people of other languages say it.
_SYMPTOMS = {
    "gives black images": (
        r"(?:图|图片|图像|画面|视频|结果|输出)(?:都|全|全部|全都|是|变成|变|出来|一片|为|了|就){0,4}(?:纯)?黑(?!名单|盒|客)",
        r"(?:纯|全|一张|都是|只有)黑(?:图|色图|屏|的图|色的图)|黑图",
        r"(?:画像|映像|動画|出力|絵|画面)\w{0,3}(?:真っ黒|黒く|黒い|黒に)|真っ黒な?(?:画像|動画|出力)",
        r"(?:이미지|사진|영상|그림|화면)\S{0,3} ?(?:\S{1,6} )?(?:검은|검게|까맣|검정)|검은 ?(?:이미지|화면|그림)",
        r"\b(?:Bild|Bilder|Bildern|Video|Videos)\b[^.\n]{0,30}\bschwarz\b|\bschwarze[rsn]? (?:Bild|Video)",
        r"\bimages?\b[^.\n]{0,20}\bnoires?\b",
        r"\bim[aá]genes?\b[^.\n]{0,20}\bnegr[oa]s?\b",
        r"\bimage(?:m|ns)\b[^.\n]{0,20}\bpret[oa]s?\b",
        r"\bimmagin[ei]\b[^.\n]{0,20}\bner[ea]\b",
        r"\b[Чч][её]рн\w{1,4} (?:картинк|изображени|экран|кадр|квадрат|видео)",
        r"(?:картинк|изображени|кадр|видео)\w{0,4} (?:\w{1,12} ){0,2}ч[её]рн",
    ),
    "the output is noise": (
        r"噪点|噪声图|噪音图|全是(?:噪声|噪音|雪花|马赛克)|花屏",
        r"ノイズ(?:だらけ|だけ|しか|まみれ|に(?:なる|なり|なって)|画像)|砂嵐",
        r"노이즈(?:만|가|로|뿐| 이미지)",
        r"\b(?:nur|reines|bloß|lauter) (?:Bild)?[Rr]auschen\b",
        r"\bque du bruit\b|\bimages? (?:de|pleine de) bruit\b",
        r"\b(?:solo|puro) ruido\b|\b(?:só|apenas|puro) ruído\b",
        r"\b(?:только|вместо \w{3,14}|один|сплошной) шум\b|\bшум вместо\b",
    ),
    "the output is garbled": (
        r"乱码|亂碼|胡言乱语|胡说八道|(?:输出|回复|回答|结果)(?:全是|都是|变成|是)(?:感叹号|!!)",
        r"文字化け|意味不明な?(?:出力|文|テキスト)|(?:出力|文章)が(?:壊れ|おかし)",
        r"깨진 ?(?:글자|텍스트|출력|문자)|(?:출력|글자|텍스트)[이가]? ?깨[지져]",
        r"\b(?:nur|bloß) (?:Unsinn|Kauderwelsch|Müll)\b|\b(?:Ausgabe|Text) ist (?:Unsinn|Müll|unlesbar)",
        r"\b(?:выда[её]т|генерирует|пишет|получается) (?:мусор|бред|чушь|ерунд\w|кракозябры)",
        r"\b(?:texto|salida|saída|respuestas?) (?:\w{1,8} )?(?:sem|sin) sentido\b",
        r"\bcharabia\b",
    ),
    "the gradient is wrong": (
        r"(?:反向(?:传播)?(?:的)?(?:结果|梯度)?|梯度)(?:是|都|完全|计算)?(?:不对(?!齐|称|应)|不正确|有误|错误|是错的)",
        r"(?:勾配|逆伝播の結果)(?:が|は)(?:おかし|間違|違っ|合わな)",
    ),
    "the output is wrong": (
        r"(?:结果|输出|数值)(?:是|都|完全)?(?:不对(?!齐|称|应)|不正确|是错的)",
        r"(?:結果|出力)(?:が|は)(?:おかし|間違|正しくな)",
    ),
    "the loss becomes nan": (
        r"(?i:\bloss|损失)\s{0,2}(?:函数|值)?\s{0,2}(?:变成|变为|成为|变|成|出现|一直是|一直为|直接|就是|总是|全是|都是|为|是)了?\s{0,2}(?i:nan)(?![a-z])",
        r"(?i:\bloss|損失)\s{0,2}(?:が|は)\s{0,2}(?i:nan)(?![a-z])",
        r"(?i:\bloss|손실)\s{0,2}(?:값)?(?:가|이|은|는)?\s{0,2}(?i:nan)(?![a-z])",
        r"\b(?:[Ll]oss|Verlust) (?:wird|ist|geht auf|bleibt) (?:zu |immer |sofort )?(?i:nan)\b",
        r"\b(?:[Ll]oss|[Лл]осс|[Пп]отери) (?:становится|стал\w?|уходит в|превращается в|сразу) (?i:nan)\b",
        r"\b(?:[Ll]oss|pérdida|perda) (?:es|se vuelve|se convierte en|pasa a|vira|fica) (?i:nan)\b",
        r"\b(?:[Ll]oss|perte) (?:devient|est|passe à|vaut) (?i:nan)\b",
    ),
    "GPU out of memory": (
        r"显存(?:不足|不够|溢出|爆)|爆显存|顯存不足",
        r"VRAM ?(?:が)?(?:不足|足りな)|(?:ビデオ|GPU)メモリ(?:が)?(?:不足|足りな)",
        r"(?:VRAM|비디오 ?메모리|그래픽 ?메모리)\S{0,2} ?(?:부족|모자)",
        r"(?:не хватает|нехватка|мало) (?:видео|VRAM)\w{0,8}",
        r"\bzu wenig (?:VRAM|Grafikspeicher)\b|\bGrafikspeicher (?:reicht nicht|voll)\b",
    ),
}  # fmt: skip
_TOLD = tuple((when_used("|".join(others)), english) for english, others in _SYMPTOMS.items())


def may_tell_a_symptom(text: str) -> bool:
    """Whether the line is worth the search: a log is read line by line."""
    if len(text) > _LONGEST:
        return False
    return not text.isascii() or any(sign in text for sign in _IN_ENGLISH_LETTERS)


def with_symptoms_in_english(text: str) -> str:
    """The line, and behind it in English each symptom that it tells."""
    told = [english for pattern, english in _TOLD if pattern.search(text)]
    return f"{text} ({'; '.join(told)})" if told else text
