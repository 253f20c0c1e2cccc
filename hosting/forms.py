"""The forms that browsers send."""

from urllib.parse import parse_qsl

from starlette.requests import Request

_LARGEST = 1 << 18  # bytes


async def fields(request: Request) -> list[tuple[str, str]]:
    """Returns the fields of a form; none of one that is too large or not text."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            return []
    try:
        return parse_qsl(body.decode("utf-8"), max_num_fields=1000)
    except ValueError:
        return []
