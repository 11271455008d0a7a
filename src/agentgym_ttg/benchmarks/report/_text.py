"""Text on its way into a page: whatever a model said, it stays text."""

from __future__ import annotations

import html
from typing import Any

__all__ = ["Html", "element", "esc", "join"]


class Html(str):
    """Markup that is safe to put into a page; every other string is escaped."""

    __slots__ = ()


def esc(value: Any) -> Html:
    r"""Return a value as safe markup.

    Control characters, lone surrogates and what reverses the reading direction become visible: a page must show them,
    not obey them.

    >>> esc("<script>alert(1)</script>")
    '&lt;script&gt;alert(1)&lt;/script&gt;'
    >>> esc("a\x00b\u202ec")
    'a\ufffdb\ufffdc'
    """
    if isinstance(value, Html):
        return value
    text = "".join(c if c.isprintable() or c in "\n\t" else "�" for c in str(value))
    return Html(html.escape(text, quote=True))


def element(tag: str, *content: Any, **attributes: Any) -> Html:
    """Return an element; content and attribute values are escaped unless they are :class:`Html`.

    A trailing underscore of an attribute's name is dropped, others become hyphens; None leaves it out.

    >>> element("p", "a < b", class_="x")
    '<p class="x">a &lt; b</p>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{esc(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{given}>{join(content)}</{tag}>")


def join(parts: Any, separator: str = "") -> Html:
    """Return the parts one after the other."""
    return Html(separator.join(esc(part) for part in parts))
