"""A report as one page of HTML that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from alem.experiments.figures import to_inline
from alem.experiments.report.blocks import Block, Bullets, Heading, Listing, Paragraph, Picture, Table

STYLE = """\
:root { color-scheme: light dark; --page: #fff; --ink: #1d2126; --dim: #5b6570; --rule: #d9dee3;
  --shade: #f4f6f8; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #14171b; --ink: #e4e7ea; --dim: #a0a9b2;
  --rule: #343b43; --shade: #1d2228; --line-0: #3f97dd; --line-1: #f07c33; --line-2: #22bb8e;
  --line-3: #dd92ba; --line-4: #ebb038; --line-5: #92d3f5; } }
@media print { :root { color-scheme: light; --dim: #444; --rule: #bbb; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.6rem; padding-top: 0.8rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.05rem; margin: 2rem 0 0.5rem; }
h1, h2, h3, p, li, figcaption { overflow-wrap: anywhere; }
p, li, figcaption { max-width: 56rem; }
.wide { overflow-x: auto; max-width: 100%; margin: 0.8rem 0; }
table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--rule); }
thead th { white-space: normal; border-bottom: 2px solid var(--dim); vertical-align: bottom; }
tbody th { font-weight: 400; }
tbody th, .text { text-align: left; }
tr.strong > * { font-weight: 700; background: var(--shade); }
figure { margin: 1rem 0 1.6rem; }
figure svg { display: block; width: 100%; height: auto; min-width: 38rem; }
figure svg text { font-family: "DejaVu Sans", Verdana, sans-serif !important; }
figcaption { color: var(--dim); font-size: 0.88rem; }
pre { overflow-x: auto; background: var(--shade); border: 1px solid var(--rule); border-radius: 4px;
  padding: 0.7rem 0.9rem; font-size: 0.85rem; }
@media print { main { max-width: none; padding: 0; } .wide { overflow: visible; }
  figure, tr, pre { break-inside: avoid; } h2, h3 { break-after: avoid; } pre { white-space: pre-wrap; }
  th, td { padding: 0.15rem 0.4rem; white-space: normal; } table { font-size: 0.75rem; }
  figure svg { min-width: 0; } }
"""

# What may be wider than the screen, and can be scrolled with the keyboard.
WIDE = '<div class="wide" tabindex="0">'


def to_html(blocks: Sequence[Block], title: str) -> str:
    """The page."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            *map(_block, blocks),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p>{escape(block.text)}</p>"
        case Bullets():
            return "\n".join(["<ul>", *(f"<li>{escape(item)}</li>" for item in block.items), "</ul>"])
        case Listing():
            return f"<pre><code>{escape(block.text)}</code></pre>"
        case Table():
            return _table(block)
        case Picture():
            svg = to_inline(block.drawing, block.name, block.caption)
            caption = f"<figcaption>{escape(block.caption)}</figcaption>"
            return f"<figure>\n{WIDE}\n{svg}\n</div>\n{caption}\n</figure>"


def _table(table: Table) -> str:
    head = "".join(
        f'<th scope="col"{_text(table, i)}>{escape(cell)}</th>' for i, cell in enumerate(table.head)
    )
    lines = [WIDE, "<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
    for place, row in enumerate(table.rows):
        cells = [f'<th scope="row">{escape(row[0])}</th>']
        cells += [f"<td{_text(table, i)}>{escape(cell)}</td>" for i, cell in enumerate(row) if i]
        strong = ' class="strong"' if place in table.strong else ""
        lines.append(f"<tr{strong}>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _text(table: Table, column: int) -> str:
    return ' class="text"' if column < table.text else ""
