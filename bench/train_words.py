"""Makes recipes/words.json: for each recipe the words that speak for it and against it.

    python bench/train_words.py [--without SHARE]

Needs scikit-learn, which nothing else here needs. Read are the cases and the titles of the shelf, nothing else: whoever
runs it on the same shelf gets the same file. Recipes that say only where, or know messages by their grammar, have no
words of their own and are left out. --without leaves a share of the cases out, tells how many of these the rest of the
shelf names first or among five, and writes nothing.

To be run after recipes were added: tests/recipes/test_words.py says when the file no longer fits the shelf.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

import numpy
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attn_doctor.recipes import shelf  # noqa: E402
from attn_doctor.recipes.build import TEMPLATE  # noqa: E402
from attn_doctor.recipes.data.words import TABLE, Words, words_in  # noqa: E402
from attn_doctor.recipes.recipe import Recipe  # noqa: E402

#: A smaller weight says nothing: without it the file is a seventieth, and names as many first.
LEAST = 0.15
#: Weights are whole numbers of this fraction.
SCALE = 32


def main() -> None:
    """Reads the command line."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--without", type=float, default=0.0, metavar="SHARE")
    share = arguments.parse_args().without
    texts = [
        (text, recipe.id, is_case)
        for recipe in (*shelf.bundled(), *shelf.families())
        if recipe.logs and recipe.has_words_of_its_own
        for text, is_case in texts_of(recipe)
    ]
    left_out = set(random.Random(0).sample(range(len(texts)), int(share * len(texts))))
    asked = [(text, name) for at, (text, name, is_case) in enumerate(texts) if at in left_out and is_case]
    made = train([(text, name) for at, (text, name, _) in enumerate(texts) if at not in left_out])
    if not asked:
        file = ROOT / "recipes" / TABLE
        file.write_text(written(made))
        print(f"{file.relative_to(ROOT)}: {len(made['recipes'])} recipes, {len(made['words'])} words")
        return
    ranked = [([one.id for one in Words(made).ranked(text)[:5]], name) for text, name in asked]
    first, five = sum(found[:1] == [name] for found, name in ranked), sum(name in found for found, name in ranked)
    print(f"of {len(asked)} cases left out {first} are named first, {five} among five")


def texts_of(recipe: Recipe) -> list[tuple[str, bool]]:
    """What the recipe is learned from; with whether it is a case."""
    title = f"{TEMPLATE.sub('', recipe.title)} {recipe.id.replace('-', ' ')}"
    return [(title, False), *((case.log, True) for case in recipe.cases if case.log)]


def train(texts: list[tuple[str, str]]) -> dict[str, object]:
    """The model of texts, each with the recipe that it is of."""
    vectorizer = TfidfVectorizer(analyzer=lambda text: list(words_in(text)), sublinear_tf=True)
    vectors = vectorizer.fit_transform([text for text, _ in texts])
    model = LinearSVC(random_state=0).fit(vectors, [name for _, name in texts])
    weights = numpy.where(numpy.abs(model.coef_) < LEAST, 0, numpy.round(model.coef_ * SCALE)).astype(int)
    rows = {
        word: [round(float(rare), 2), *(int(one) for at in numpy.flatnonzero(column) for one in (at, column[at]))]
        for word, rare, column in zip(vectorizer.get_feature_names_out(), vectorizer.idf_, weights.T, strict=True)
    }
    return {
        "scale": SCALE,
        "recipes": [str(one) for one in model.classes_],
        "bias": [round(float(one), 3) for one in model.intercept_],
        "words": rows,
    }


def written(made: dict[str, object]) -> str:
    """The file's text, a word a line, so that a change shows what changed."""
    words: dict[str, list[float]] = made["words"]  # type: ignore[assignment]
    head = json.dumps({name: value for name, value in made.items() if name != "words"}, separators=(",", ":"))
    lines = (f"{json.dumps(word)}:{json.dumps(row, separators=(',', ':'))}" for word, row in sorted(words.items()))
    return f'{head[:-1]},\n"words":{{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    main()
