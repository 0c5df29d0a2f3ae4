"""Symptoms that people tell in other languages are those that they tell in English."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.clean import clean
from attn_doctor.diagnose.log.told_in_other_languages import may_tell_a_symptom
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families


@pytest.mark.parametrize(
    ("told", "english"),
    [
        ("用了 xformers 之后出图全黑", "gives black images"),
        ("SageAttentionを有効にすると画像が真っ黒になります", "gives black images"),
        ("sage attention 켜면 이미지가 검게 나와요", "gives black images"),
        ("Mit xformers sind alle Bilder schwarz", "gives black images"),
        ("Con --xformers las imágenes salen negras", "gives black images"),
        ("с xformers получаются чёрные картинки", "gives black images"),
        ("avec xformers les images sont noires", "gives black images"),
        ("com sage attention as imagens ficam pretas", "gives black images"),
        ("打开 sageattention 后出来的图全是噪点", "the output is noise"),
        ("После включения SageAttention вместо картинки шум", "the output is noise"),
        ("SageAttentionでノイズだらけになる", "the output is noise"),
        ("开启 flash-attn 之后输出乱码", "the output is garbled"),
        ("flex attention 的前向一致，反向梯度不对", "the gradient is wrong"),
        ("換成 sdpa 正常，用 flash attention 输出不对", "the output is wrong"),
        ("FlexAttentionにすると勾配がおかしい", "the gradient is wrong"),
        ("训练 loss 变成 nan", "the loss becomes nan"),
        ("flash attention을 켜면 loss가 nan이 됩니다", "the loss becomes nan"),
        ("用 flash attention 训练显存不足", "GPU out of memory"),
    ],
)
def test_symptoms(told: str, english: str) -> None:
    assert clean(1, told).text.endswith(f" ({english})")


@pytest.mark.parametrize(
    "line",
    [
        "Das schwarze Brett im Flur",
        "imagen: nvidia/cuda:12.4",
        "把用户加入黑名单",
        "程序输出错误信息",
        "结果不对齐",
        "█████ 100%",
        "nan",
        "The loss is fine",
    ],
)
def test_other_words_stay_as_they_are(line: str) -> None:
    assert "(" not in clean(1, line).text


def test_a_long_line_is_a_program_s() -> None:
    assert not may_tell_a_symptom("图" * 401)


@pytest.mark.parametrize(
    ("told", "id_"),
    [
        ("用了 xformers 之后出图全黑，显卡是 GTX 1660 Super", "images-all-nan"),
        ("ComfyUI 打开 sageattention 后出来的图全是噪点", "attention-said-to-be-wrong"),
        ("Mit xformers sind alle Bilder schwarz (GTX 1650)", "images-all-nan"),
    ],
)
def test_known_as_in_english(told: str, id_: str) -> None:
    findings = explain_text(told, (*bundled(), *families()), FactSet()).diagnosis.findings
    assert [one.id for one in findings] == [id_]


@pytest.mark.parametrize(
    "said",
    [
        "moon-cli : 无法将“moon-cli”项识别为 cmdlet、函数、脚本文件或可运行程序的名称。",
        'moon-cli : Die Benennung "moon-cli" wurde nicht als Name eines Cmdlet erkannt.',
        "moon-cli : Le terme «moon-cli» n'est pas reconnu comme nom d'applet de commande.",
        "moon-cli : 用語 'moon-cli' は、コマンドレット、関数の名前として認識されません。",
    ],
)
def test_a_command_that_powershell_does_not_know(said: str) -> None:
    """In the words that it has in English."""
    assert "The term 'moon-cli' is not recognized as the name of a cmdlet" in clean(1, said).text
