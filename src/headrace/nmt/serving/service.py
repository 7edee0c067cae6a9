"""What a translation server does, apart from HTTP: requests as JSON documents, their limits, answers, statistics."""

from __future__ import annotations

import concurrent.futures
import copy
import dataclasses
import difflib
import math
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.nmt.hparams import HParamError
from headrace.nmt.infer import Translation, Translator
from headrace.nmt.serving.batcher import Batcher, Full
from headrace.nmt.text.detokenize import detokenize
from headrace.nmt.text.files import SEPARATORS
from headrace.nmt.text.tokenizer import tokenize

__all__ = ["Limits", "RequestError", "Search", "Service", "Statistics"]


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many may wait.

    Attributes:
        beam_width: Hypotheses of a sentence.
        sentences: Sentences of a request.
        words: Words of a sentence, or subwords, as the model reads them.
        body: Bytes of a request.
        waiting: Sentences that wait, of all requests; what comes beyond is turned away.
        seconds: Time that a request may take.
        connections: Connections at a time.
    """

    beam_width: int = 20
    sentences: int = 32
    words: int = 200
    body: int = 100_000
    waiting: int = 256
    seconds: float = 30.0
    connections: int = 256

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise HParamError(f"the limit of {field.name} must be above 0, got {getattr(self, field.name)}")
        if self.waiting < self.sentences:
            raise HParamError(f"a request may have {self.sentences} sentences, but only {self.waiting} may wait")


class RequestError(Exception):
    """A request that is not answered; the message is for whoever made it.

    Args:
        status: The status of HTTP.
        message: What was expected, what came, what to do.
        retry_after: Seconds after which it may go better.
    """

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class Search(NamedTuple):
    """How to search; only sentences that agree in it are translated in one batch."""

    beam_width: int
    length_penalty_weight: float
    coverage_penalty_weight: float
    nbest: int


_OPTIONS = ("text", *Search._fields, "attention")


class Statistics:
    """Counts requests by status, and how long they took."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._requests: Counter[int] = Counter()
        self._seconds = 0.0
        self._latest: deque[float] = deque(maxlen=1000)

    def note(self, status: int, seconds: float) -> None:
        """Takes note of a request for a translation; times are of those that got one."""
        with self._lock:
            self._requests[status] += 1
            if status == 200:
                self._seconds += seconds
                self._latest.append(seconds)

    def document(self) -> dict[str, Any]:
        """Returns the numbers, as JSON has them."""
        with self._lock:
            latest, requests = sorted(self._latest), dict(sorted(self._requests.items()))
            seconds, uptime = self._seconds, time.monotonic() - self._started
        document: dict[str, Any] = {
            "uptime_seconds": round(uptime, 3),
            "requests": {str(status): count for status, count in requests.items()},
            "request_seconds": round(seconds, 6),
        }
        if latest:
            document["latest_seconds"] = {
                "median": round(statistics.median(latest), 6),
                "p95": round(latest[math.ceil(0.95 * len(latest)) - 1], 6),
                "max": round(latest[-1], 6),
            }
        return document


class Service:
    """Translates what requests bring: many callers, one model, batches of all that wait together.

    Args:
        translator: The model. Its settings are those of requests that say nothing else.
        limits: What requests may ask for.
        lowercase: Read requests in small letters, for a model that was trained on such.
        tokenize: Put blanks round punctuation before, and take them away after, for a model of such words.

    Raises:
        HParamError: The model has no source language, or its settings are none for a server.
    """

    def __init__(
        self,
        translator: Translator,
        limits: Limits | None = None,
        *,
        lowercase: bool = False,
        tokenize: bool = False,
    ) -> None:
        hparams = translator.hparams
        self.translator, self.limits = translator, limits or Limits()
        self.lowercase, self.tokenize = lowercase, tokenize
        if hparams.language_model:
            raise HParamError("this is a language model, which has no sentences to translate")
        if hparams.search == "sample":
            raise HParamError("a server answers the same request in the same way: infer_mode cannot be sample")
        if hparams.beam_width > self.limits.beam_width:
            raise HParamError(f"beam_width={hparams.beam_width} is above the limit of {self.limits.beam_width}")
        if tokenize and translator.subwords is not None:
            raise HParamError("this model was trained on running text and cuts it by itself: leave out --tokenize")
        self.statistics = Statistics()
        self.stopping = False
        self._entities = "&apos;" in translator.vocabs.src or "&quot;" in translator.vocabs.src
        self._batcher: Batcher[Search, list[Translation]] = Batcher(
            self._translate, hparams.infer_batch_size, self.limits.waiting
        )

    def close(self) -> None:
        """Translates what waits, and ends."""
        self._batcher.close()

    # Requests -------------------------------------------------------------------------------------------------------

    def translate(self, document: object) -> dict[str, Any]:
        """Answers a request.

        Args:
            document: `{"text": …}`, a sentence or a list of them, with `beam_width`, `length_penalty_weight`,
                `coverage_penalty_weight`, `nbest` and `attention` where they should differ from the server's.

        Raises:
            RequestError: It is not such a document (400), too much waits already (503), or it took too long (504).
        """
        start = time.perf_counter()
        if not isinstance(document, dict):
            raise RequestError(400, f'expected an object such as {{"text": "…"}}, got {_kind(document)}')
        for name in document:
            if name not in _OPTIONS:
                near = difflib.get_close_matches(str(name), _OPTIONS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(_OPTIONS)}"
                raise RequestError(400, f"unknown option {str(name)[:40]!r}; {hint}")
        given = self._texts(document.get("text"))
        texts = [self.prepare(text) for text in given]
        search, attention = self._search(document), document.get("attention", False)
        if not isinstance(attention, bool):
            raise RequestError(400, f"attention must be true or false, got {_kind(attention)}")
        try:
            future = self._batcher.submit(texts, search)
        except Full as full:
            raise RequestError(503, f"the server is busy: {full}; try again in a second", retry_after=1) from None
        try:
            found = future.result(self.limits.seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise RequestError(
                504,
                f"not translated within {self.limits.seconds:g} s: try fewer, shorter sentences or a smaller beam",
            ) from None
        return {
            "translations": [self._answer(text, nbest, attention) for text, nbest in zip(given, found, strict=True)],
            "seconds": round(time.perf_counter() - start, 6),
        }

    def prepare(self, text: str) -> str:
        """Makes of what a person writes what the model's training files hold."""
        text = text.lower() if self.lowercase else text
        if self.tokenize:
            text = tokenize(text, self.translator.hparams.src or "", self._entities)
        return text

    def _texts(self, given: object) -> list[str]:
        texts = given if isinstance(given, list) else [given]
        if given is None or not texts:
            raise RequestError(400, 'expected a sentence, or a list of them, as "text"')
        if len(texts) > self.limits.sentences:
            raise RequestError(400, f"expected at most {self.limits.sentences} sentences at once, got {len(texts):,}")
        count = len(texts)
        names = [f"sentence {n} of {count}" if count > 1 else "the sentence" for n in range(1, count + 1)]
        return [self._text(text, name) for text, name in zip(texts, names, strict=True)]

    def _text(self, text: object, which: str) -> str:
        if not isinstance(text, str):
            raise RequestError(400, f"{which} must be text, got {_kind(text)}")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RequestError(400, f"{which} has half of a character (a lone surrogate)") from None
        text = " ".join(text.splitlines())  # a sentence is a line
        if not text.strip():
            raise RequestError(400, f"{which} is empty: write something to translate")
        words = sum(1 for word in self.translator.cut([self.prepare(text)])[0].split(SEPARATORS) if word)
        if words > self.limits.words:
            raise RequestError(
                400, f"{which} has {words:,} words as the model reads them, at most {self.limits.words} may be: cut it"
            )
        return text

    def _search(self, document: Mapping[str, object]) -> Search:
        hparams = self.translator.hparams
        beam = _whole(document, "beam_width", hparams.beam_width, 0, self.limits.beam_width)
        default = min(hparams.num_translations_per_input, max(beam, 1))
        nbest = _whole(document, "nbest", default, 1, self.limits.beam_width)
        if nbest > max(beam, 1):
            raise RequestError(
                400, f"nbest may be at most beam_width, got {nbest} with beam_width {beam}: give a wider beam"
            )
        length = _number(document, "length_penalty_weight", hparams.length_penalty_weight, 10.0)
        coverage = _number(document, "coverage_penalty_weight", hparams.coverage_penalty_weight, 10.0)
        return Search(beam, length, coverage, nbest)

    # Translating ----------------------------------------------------------------------------------------------------

    def _translate(self, texts: list[str], search: Search) -> list[list[Translation]]:
        """Translates a batch. Whatever is in it, a sentence has the translation that it has alone."""
        translator = copy.copy(self.translator)
        translator.hparams = translator.hparams.replace(
            infer_mode=None,
            whole_batch_limit=False,  # who else waits is nothing to a translation
            beam_width=search.beam_width,
            length_penalty_weight=search.length_penalty_weight,
            coverage_penalty_weight=search.coverage_penalty_weight,
            num_translations_per_input=search.nbest,
        )
        return translator.nbest(texts, search.nbest, attention=True)

    def _answer(self, text: str, nbest: Sequence[Translation], attention: bool) -> dict[str, Any]:
        source = nbest[0].source
        possible = [found for found in nbest if math.isfinite(found.log_prob)] or nbest[:1]
        return {
            "text": text,
            "source": source,
            "unknown": [place for place, word in enumerate(source) if word not in self.translator.vocabs.src],
            "hypotheses": [
                {
                    "text": detokenize(found.text) if self.tokenize else found.text,
                    "tokens": found.words,
                    "score": _finite(found.score),
                    "log_prob": _finite(found.log_prob),
                }
                | ({"attention": _matrix(found)} if attention else {})
                for found in possible
            ],
        }

    # What else there is to know -------------------------------------------------------------------------------------

    def model(self) -> dict[str, Any]:
        """Describes the model, the search of requests that say nothing else, and the limits."""
        hparams = self.translator.hparams
        return {
            "source": hparams.src,
            "target": hparams.tgt,
            "models": 1 + len(self.translator.others),
            "architecture": hparams.architecture,
            "num_units": hparams.num_units,
            "attention": hparams.looks_back,
            "reads": "text" if self.translator.subwords is not None or self.tokenize else "words",
            "lowercase": self.lowercase,
            "defaults": Search(
                hparams.beam_width,
                hparams.length_penalty_weight,
                hparams.coverage_penalty_weight,
                hparams.num_translations_per_input,
            )._asdict(),
            "limits": dataclasses.asdict(self.limits),
        }

    def numbers(self) -> dict[str, Any]:
        """Returns the statistics: of requests, and of batches."""
        counts = self._batcher.counts
        return self.statistics.document() | {
            "batches": counts.batches,
            "sentences": counts.items,
            "largest_batch": counts.largest,
            "waiting": counts.waiting,
        }


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _whole(document: Mapping[str, object], name: str, default: int, least: int, most: int) -> int:
    value = document.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        shown = _kind(value) if isinstance(value, bool) or not isinstance(value, int | float) else value
        raise RequestError(400, f"{name} must be a whole number from {least} to {most}, got {shown}")
    return value


def _number(document: Mapping[str, object], name: str, default: float, most: float) -> float:
    value = document.get(name, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value <= most:
        shown = _kind(value) if isinstance(value, bool) or not isinstance(value, int | float) else value
        raise RequestError(400, f"{name} must be a number from 0 to {most:g}, got {shown}")
    return float(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _matrix(found: Translation) -> list[list[float]] | None:
    if found.attention is None:
        return None
    return [[round(weight, 5) if math.isfinite(weight) else 0.0 for weight in row] for row in found.attention.tolist()]
