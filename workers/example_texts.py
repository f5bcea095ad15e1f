"""Statistics of a text, and a small model that tells its language, for the example service.

The model is nearest-centroid over letter trigrams, trained on the first article of the Universal
Declaration of Human Rights and some everyday sentences.  A trigram counts the more the fewer
languages have it (inverse document frequency).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_SENTENCE_END: Final = re.compile(r"[.!?…]+(?:\s|$)")
_SYLLABLE: Final = re.compile(r"[aeiouy]+")

SAMPLES: Final = {
    "en": (
        "All human beings are born free and equal in dignity and rights. They are endowed with "
        "reason and conscience and should act towards one another in a spirit of brotherhood. "
        "Good morning, how are you today? I would like a cup of tea with milk, please. Where is "
        "the nearest station, and when does the next train leave? Thank you very much, that was "
        "what we were looking for."
    ),
    "fr": (
        "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont "
        "doués de raison et de conscience et doivent agir les uns envers les autres dans un "
        "esprit de fraternité. "
        "Bonjour, comment allez-vous aujourd'hui ? Je voudrais une tasse de thé avec du lait, "
        "s'il vous plaît. Où est la gare, et quand part le prochain train ? Merci beaucoup, "
        "c'est ce que nous cherchions."
    ),
    "de": (
        "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
        "und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen. "
        "Guten Morgen, wie geht es Ihnen heute? Ich möchte eine Tasse Tee mit Milch, bitte. Wo "
        "ist der nächste Bahnhof, und wann fährt der nächste Zug? Vielen Dank, das ist es, was "
        "wir gesucht haben."
    ),
    "es": (
        "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como "
        "están de razón y conciencia, deben comportarse fraternalmente los unos con los otros. "
        "Buenos días, ¿cómo está usted hoy? Quisiera una taza de té con leche, por favor. "
        "¿Dónde está la estación y cuándo sale el próximo tren? Muchas gracias, eso es lo que "
        "estábamos buscando."
    ),
    "it": (
        "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono dotati "
        "di ragione e di coscienza e devono agire gli uni verso gli altri in spirito di "
        "fratellanza. "
        "Buongiorno, come sta oggi? Vorrei una tazza di tè con il latte, per favore. Dove si "
        "trova la stazione, e quando parte il prossimo treno? Grazie mille, è quello che "
        "stavamo cercando."
    ),
    "nl": (
        "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren. Zij zijn "
        "begiftigd met verstand en geweten, en behoren zich jegens elkander in een geest van "
        "broederschap te gedragen. "
        "Goedemorgen, hoe gaat het vandaag met u? Ik wil graag een kopje thee met melk, "
        "alstublieft. Waar is het station, en wanneer vertrekt de volgende trein? Hartelijk "
        "dank, dat is wat wij zochten."
    ),
}


@dataclass(frozen=True)
class TextStatistics:
    """`reading_ease` is Flesch's for English: 100 very easy, 0 very hard; None without words."""

    characters: int
    words: int
    distinct_words: int
    sentences: int
    mean_word_length: float
    reading_ease: float | None
    most_common: list[tuple[str, int]]


def statistics(text: str, top: int) -> TextStatistics:
    words = [word.lower() for word in _WORD.findall(text)]
    counts = Counter(words)
    sentences = len(_SENTENCE_END.findall(text)) or bool(words)
    return TextStatistics(
        characters=len(text),
        words=len(words),
        distinct_words=len(counts),
        sentences=int(sentences),
        mean_word_length=round(sum(map(len, words)) / max(1, len(words)), 2),
        reading_ease=_reading_ease(words, int(sentences)) if words else None,
        most_common=counts.most_common(top),
    )


def _reading_ease(words: list[str], sentences: int) -> float:
    syllables = sum(max(1, len(_SYLLABLE.findall(word))) for word in words)
    return round(206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words), 1)


class LanguageModel:
    """`SAMPLES` as unit vectors of weighted trigram counts: shape (languages, trigrams)."""

    def __init__(self, samples: dict[str, str] = SAMPLES) -> None:
        self.languages = list(samples)
        found = [_trigrams(text) for text in samples.values()]
        homes = Counter(trigram for trigrams in found for trigram in set(trigrams))
        self._columns = {trigram: column for column, trigram in enumerate(homes)}
        self._weights = np.log(1 + len(samples) / np.array(list(homes.values())))
        self._centroids = np.stack([self._vector(trigrams) for trigrams in found])

    def similarities(self, text: str) -> NDArray[np.float64]:
        """Cosine similarity, 0 to 1, with each of `languages`."""
        similar: NDArray[np.float64] = self._centroids @ self._vector(_trigrams(text))
        return similar

    def _vector(self, trigrams: list[str]) -> NDArray[np.float64]:
        counts = np.zeros(len(self._columns))
        for trigram, count in Counter(trigrams).items():
            if trigram in self._columns:
                counts[self._columns[trigram]] = count
        vector: NDArray[np.float64] = np.log1p(counts) * self._weights
        return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _trigrams(text: str) -> list[str]:
    padded = " ".join(["", *_WORD.findall(text.lower()), ""])
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
