"""What a simulated engine says: sentences that own up to being simulated and vary with the prompt."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence

from engine.simulator.tokens import pieces

_OPENINGS = (
    "This answer is simulated: no model ran, only its timing was imitated.",
    "Simulated answer, written without a model; only the pace of the words is modelled.",
    "No model computed this text; the simulated engine strings sentences together.",
)
_SENTENCES = (
    "Your prompt mentions “{word}”, and a real model would reason about it here.",
    "The words arrive at the pace of the stated prefill rate and decode step time.",
    "Each further running request makes this step a little slower.",
    "If an earlier prompt began with the same words, its blocks came from the prefix cache.",
    "Nothing in these sentences about “{word}” should be believed.",
    "When blocks run out, the youngest request is preempted and computed again.",
    "To read a real answer about “{word}”, start a vLLM engine in its place.",
    "This sentence only fills the answer up to its length.",
)
_WORD = re.compile(r"[^\W\d_]{4,20}")
# Log-normal lengths: median 90 tokens, a tenth of the answers above 250, as chats tend to have.
_LENGTH_MU, _LENGTH_SIGMA = 4.5, 0.8
_LENGTH_RANGE = (16, 1_200)


def natural_length(prompt: Sequence[int]) -> int:
    """Tokens after which the answer to this prompt ends by itself; equal prompts, equal lengths."""
    drawn = random.Random(_seed(prompt)).lognormvariate(_LENGTH_MU, _LENGTH_SIGMA)
    return round(min(max(drawn, _LENGTH_RANGE[0]), _LENGTH_RANGE[1]))


def answer_pieces(prompt: Sequence[int], question: str, length: int) -> list[str]:
    """The answer's `length` tokens.

    Args:
        prompt: Token ids of the whole prompt; they choose the sentences.
        question: The last turn, whose words are quoted.
        length: Tokens wanted.
    """
    chooser = random.Random(_seed(prompt))
    words = _WORD.findall(question[-4_000:]) or ["nothing"]
    cut = pieces(chooser.choice(_OPENINGS))
    while len(cut) < length:
        cut.extend(pieces(" " + chooser.choice(_SENTENCES).format(word=chooser.choice(words))))
    return cut[:length]


def unit_vector(text: str, dimensions: int) -> list[float]:
    """A direction that depends on the text alone, of length 1; it means nothing."""
    chooser = random.Random(zlib.crc32(text.encode("utf-8", "surrogatepass")))
    drawn = [chooser.gauss(0.0, 1.0) for _ in range(dimensions)]
    norm: float = sum(value * value for value in drawn) ** 0.5
    return [value / norm for value in drawn]


def _seed(prompt: Sequence[int]) -> int:
    return zlib.crc32(",".join(map(str, prompt[-512:])).encode()) ^ len(prompt)
