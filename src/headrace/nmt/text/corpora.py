"""Where the corpora of the tutorial are, and which files they have."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CORPORA", "Corpus", "Remote", "Text"]


@dataclass(frozen=True)
class Remote:
    """A file on a server.

    Attributes:
        url: Where it is.
        sha256: What it should be; None: not known, so that the first download is recorded.
    """

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Text:
    """A text file that is made of members of archives, one after another.

    Attributes:
        name: What it will be called.
        members: Archive and member; a member that ends in .sgm has its sentences in tags.
    """

    name: str
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus.

    Attributes:
        about: What it is, in a line.
        files: What has to be loaded.
        texts: What is made of it; empty: the files are the texts.
    """

    about: str
    files: tuple[Remote, ...]
    texts: tuple[Text, ...] = ()


_STANFORD = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
_MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
_WMT = "http://data.statmt.org/wmt16/translation-task"


def _wmt_texts() -> tuple[Text, ...]:
    texts = []
    for side in ("de", "en"):
        train = (
            ("de-en.tgz", f"europarl-v7.de-en.{side}"),
            ("training-parallel-commoncrawl.tgz", f"commoncrawl.de-en.{side}"),
            ("training-parallel-nc-v11.tgz", f"training-parallel-nc-v11/news-commentary-v11.de-en.{side}"),
        )
        texts.append(Text(f"train.{side}", train))
        for year in (2013, 2014, 2015):
            # The reference, where its language is the side; else the source. In 2013 one text serves both ways.
            kind = "ref" if side == "en" else "src"
            member = (
                f"dev/newstest{year}-{kind}.{side}.sgm"
                if year == 2013
                else f"dev/newstest{year}-deen-{kind}.{side}.sgm"
            )
            texts.append(Text(f"newstest{year}.{side}", (("dev.tgz", member),)))
        kind = "ref" if side == "en" else "src"
        texts.append(Text(f"newstest2016.{side}", (("test.tgz", f"test/newstest2016-deen-{kind}.{side}.sgm"),)))
    return tuple(texts)


CORPORA: dict[str, Corpus] = {
    "iwslt15": Corpus(
        "IWSLT'15 English-Vietnamese, tokenised by Stanford: talks, 133,000 pairs, with vocabularies (CC BY-NC-ND 3.0)",
        (
            *(Remote(f"{_STANFORD}/{name}.{side}") for name in ("train", "tst2013") for side in ("en", "vi")),
            Remote(f"{_STANFORD}/tst2012.en", "b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2"),
            Remote(f"{_STANFORD}/tst2012.vi", "01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0"),
            Remote(f"{_STANFORD}/vocab.en", "827ac2c6d51c50014376cefc1d7b6b01c412f227c4dfbc6dbcb0e88891c0b759"),
            Remote(f"{_STANFORD}/vocab.vi", "383628b92b1dcbce472fa9857724add8b2976c2ed2bbe1d76ea8dca108c3396a"),
        ),
    ),
    "multi30k": Corpus(
        "Multi30k German-English: captions of pictures, 29,000 pairs, plain text",
        (
            Remote(f"{_MULTI30K}/train.de.gz", "8506e50eaf610b55a8286d1ce85e4098dc2a0a0fce45b4827a5409d9897a81b4"),
            Remote(f"{_MULTI30K}/train.en.gz", "ffdb848427a3fccff4f5c9c848dff8b8b5745e8f464f44341b6c5c5288f265db"),
            Remote(f"{_MULTI30K}/val.de.gz", "9c3697bf5d18908e41df6a94b8a006ab64dbc66f38790865d6694136428a524d"),
            Remote(f"{_MULTI30K}/val.en.gz", "459836b7adfe4fd130d0a8c680e2860d6099fbea0fd1bdbbc7442bbc5afce59b"),
            Remote(
                f"{_MULTI30K}/test_2016_flickr.de.gz",
                "26ef35775a5540d27fc04e66063d59a180388beeede5121c0806dee0c79949e0",
            ),
            Remote(
                f"{_MULTI30K}/test_2016_flickr.en.gz",
                "7771063a5bca8712e4c60941bcb128301aab5a3eecc66abbb5d150aa3133a55d",
            ),
        ),
    ),
    "wmt16": Corpus(
        "WMT'16 German-English: Europarl 7, Common Crawl and News Commentary 11, 4.5 million pairs, plain text",
        (
            Remote("http://www.statmt.org/europarl/v7/de-en.tgz"),
            Remote("http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz"),
            Remote(f"{_WMT}/training-parallel-nc-v11.tgz"),
            Remote(f"{_WMT}/dev.tgz"),
            Remote(f"{_WMT}/test.tgz"),
        ),
        _wmt_texts(),
    ),
}
"""The corpora by name."""
