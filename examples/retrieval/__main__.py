"""An agent answers from a folder of files: a vector index in SQLite finds the passages, and names the file.

The vectors are counts of words, weighed by how rare the words are, folded into 256 numbers: no download, and
good enough for a small folder. An embedding model in the place of `embed` finds other words for it, too.

python examples/retrieval "How long may I work from abroad?"
"""

import asyncio
import math
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import sqlite_vec  # pyright: ignore[reportMissingTypeStubs]  # it has none
from google.adk.models.llm_request import LlmRequest

from adk_fluent import Agent
from adk_fluent.backends import ADKBackend
from adk_fluent.di import Resource
from adk_fluent.testing import call_tool, mock_backend

FOLDER = Path(__file__).parent / "handbook"
SIZE = 256


def words(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"[a-z]{3,}", text.lower())]  # beginnings: "works" is "worked"


def embed(text: str, rarity: dict[str, float]) -> bytes:
    """A vector of length 1: TF-IDF, each word in the place that its hash says."""
    vector = [0.0] * SIZE
    for word, count in Counter(words(text)).items():
        vector[zlib.crc32(word.encode()) % SIZE] += count * rarity.get(word, 0.0)
    length = math.sqrt(sum(x * x for x in vector)) or 1.0
    return sqlite_vec.serialize_float32([x / length for x in vector])


class Index:
    """The passages of a folder, found by meaning."""

    def __init__(self, db: Any, folder: Path) -> None:
        passages = [
            (p.name, text)
            for p in sorted(folder.glob("*.md"))
            for text in p.read_text().strip().split("\n\n")
        ]
        known = Counter(word for _, text in passages for word in set(words(text)))
        self.rarity = {word: math.log(1 + len(passages) / count) for word, count in known.items()}
        self.db = db
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
        db.execute(f"create virtual table passages using vec0(vector float[{SIZE}], +file text, +text text)")
        rows = [(embed(text, self.rarity), file, text) for file, text in passages]
        db.executemany("insert into passages(vector, file, text) values (?, ?, ?)", rows)

    def nearest(self, question: str, count: int = 3) -> list[tuple[str, str, float]]:
        """File, text and distance, the nearest first."""
        query = "select file, text, distance from passages where vector match ? and k = ? order by distance"
        rows = self.db.execute(query, (embed(question, self.rarity), count))
        return [(str(file), str(text), float(str(distance))) for file, text, distance in rows]


@contextmanager
def handbook() -> Generator[Index]:
    with closing(apsw.Connection(":memory:")) as db:
        yield Index(db, FOLDER)


def search(question: str, index: Index) -> list[dict[str, object]]:
    """Find the passages of the handbook that are about a question."""
    return [{"file": f, "text": t, "distance": round(d, 2)} for f, t, d in index.nearest(question)]


librarian = (
    Agent("librarian", "gemini-2.5-flash")
    .instruct("Answer from the handbook alone: search it, and name the file. If it says nothing, say so.")
    .tool(search)
    .inject(index=Resource(handbook, scope="app"))
)


def scripted(request: LlmRequest) -> object:
    """In the place of a model: it searches for the question, and quotes what was found first."""
    last = (request.contents[-1].parts or [])[-1]
    if not last.function_response:
        return call_tool("search", question=last.text)
    found = (last.function_response.response or {})["result"][0]
    return f"{found['text']} ({found['file']})"


BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend({"librarian": scripted})
QUESTIONS = ("How long may I work from abroad?", "Who pays when my laptop breaks?", "When is my salary paid?")

if __name__ == "__main__":
    for question in sys.argv[1:] or QUESTIONS:
        print(f"> {question}\n{asyncio.run(librarian.ask_async(question, backend=BACKEND))}")
