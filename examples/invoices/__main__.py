"""Invoices are read from a PDF and a picture into one type and added up; a person sees the doubtful ones.

python examples/invoices
"""

import asyncio
import os
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic import BaseModel
from pypdf import PdfReader

from adk_fluent import Agent, gate
from adk_fluent.backends import ADKBackend
from adk_fluent.errors import ADKFluentError
from adk_fluent.state import declares
from adk_fluent.testing import mock_backend

FOLDER = Path(__file__).parent


class Line(BaseModel):
    article: str
    euros: Decimal


class Invoice(BaseModel):
    number: str
    day: date
    lines: list[Line]
    total: Decimal


@declares(reads=("invoice", "file"), writes=("doubt",))
def look(state: Mapping[str, Any]) -> dict[str, str]:
    """What a person should look at: a sum that is wrong, a total that the text of a PDF does not have."""
    invoice, file = Invoice.model_validate(state["invoice"]), FOLDER / state["file"]
    if sum((line.euros for line in invoice.lines), Decimal()) != invoice.total:
        return {"doubt": f"the lines do not add up to {invoice.total}"}
    if file.suffix == ".pdf" and str(invoice.total) not in text_of(file.read_bytes()):
        return {"doubt": f"{invoice.total} does not stand in the file"}
    return {"doubt": ""}


@declares(reads=("invoice",), writes=("booked",))
def book(state: Mapping[str, Any]) -> dict[str, str]:
    """In the place of the books: the invoice is one line in them."""
    invoice = Invoice.model_validate(state["invoice"])
    return {"booked": f"{invoice.number} of {invoice.day}, {len(invoice.lines)} lines, {invoice.total} EUR"}


reader = Agent("reader", "gemini-2.5-flash").instruct("Copy the invoice, digit by digit. Invent nothing.")
booking = (
    reader.writes("invoice").returns(Invoice, retries=2)
    >> look
    >> gate(lambda state: state["doubt"] != "", message="{file}: {doubt}. Book it all the same?")
    >> book
)


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(BytesIO(pdf)).pages)


def scripted(request: LlmRequest) -> dict[str, object]:
    """In the place of a model that sees: it reads the text of a PDF; the picture it knows by heart."""
    parts = [part for content in request.contents for part in content.parts or ()]
    (file,) = (part.inline_data for part in parts if part.inline_data)
    if file.mime_type == "image/png":
        lines = [{"article": "Oolong", "euros": "18.00"}, {"article": "Teapot", "euros": "23.50"}]
        return {
            "number": "R-118",
            "day": "2030-01-09",
            "lines": lines,
            "total": "41.00",
        }  # it misread a digit
    number, day, *rows = text_of(file.data or b"").splitlines()
    lines = [dict(zip(("article", "euros"), row.rsplit(" ", 1), strict=True)) for row in rows]
    return {"number": number, "day": day, "lines": lines[:-1], "total": lines[-1]["euros"]}


BACKEND = ADKBackend() if "GOOGLE_API_KEY" in os.environ else mock_backend({"reader": scripted})


async def main() -> None:
    for name, kind in (("invoice.pdf", "application/pdf"), ("receipt.png", "image/png")):
        file = FOLDER / name
        part = types.Part.from_bytes(data=file.read_bytes(), mime_type=kind)
        try:
            prompt = ["Read this.", part]
            result = await booking.run(prompt, state={"file": name}, backend=BACKEND)
        except ADKFluentError as error:
            print(f"{name}: not read: {error}")
            continue
        for asked in result.pending:
            print(f"a person is asked: {asked.message}")
            answer = {asked.id: False}
            result = await booking.resume(session_id=result.session_id, approvals=answer, backend=BACKEND)
        print(f"{name}: {result.state.get('booked', 'not booked')}")


if __name__ == "__main__":
    asyncio.run(main())
