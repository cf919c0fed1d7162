"""A figure as a file and as a part of a page; the same figure gives the same text."""

from __future__ import annotations

import html
import io
import re
import warnings
from typing import TYPE_CHECKING

from alem.experiments.figures.style import COLOURS, INK, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# References within a picture: its identifiers, and who points at them.
_IDENTIFIERS = re.compile(r'(\bid="|url\(#|href="#)')
# Coordinates of paths, and what of them is below a hundredth of a point: half of a file with many curves.
_PATH, _FAR = re.compile(r' d="[^"]*"'), re.compile(r"(\.\d\d)\d+")


def draw(figure: Figure, name: str) -> str:
    """The figure as SVG with stand-ins for the colours of text and page; ``name`` is in its identifiers."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}), warnings.catch_warnings():
        # The text stays text: whoever shows the file may have letters that matplotlib has not.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _PATH.sub(lambda match: _FAR.sub(r"\1", match[0]), buffer.getvalue())


def to_file(drawing: str) -> str:
    """What :func:`draw` gives as the text of an SVG file, dark on white."""
    return drawing.replace(INK, "#222222").replace(PAPER, "#ffffff")


def to_inline(drawing: str, name: str, title: str) -> str:
    """What :func:`draw` gives as an ``svg`` element in the page's colours, ``name`` in all identifiers.

    HTML knows SVG without its namespaces, so nothing in it has the look of an address. A page may set the
    colours of lines, ``--line-0`` to ``--line-5``, to lighter ones where it is dark.
    """
    text = drawing[drawing.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href=", "href=")
    text = _IDENTIFIERS.sub(lambda match: f"{match[0]}{name}-", text)
    text = text.replace(INK, "currentColor").replace(PAPER, "none")
    for place, colour in enumerate(COLOURS):
        text = text.replace(colour, f"var(--line-{place}, {colour})")
    width = text.partition(' width="')[2].partition('"')[0]
    head = f'<svg role="img" aria-label="{html.escape(title)}" style="max-width: {width}" '
    return text.replace("<svg ", head, 1).strip()
