"""How far a converted model is off, at each output and node: a table, JSON, and a page."""

from __future__ import annotations

import html
import json
import math
import os
from typing import Any, NamedTuple

from onnx_cast import _models, _native


class OutputError(NamedTuple):
    """How far an output is off: the largest distance in parts of its largest magnitude, over all inputs; infinity where it
    is NaN or infinite and should not be. Of integers and texts, the share of the elements that differ."""

    name: str
    #: Where nodes are converted by the rules alone.
    before: float
    #: Of the result.
    after: float


class NodeError(NamedTuple):
    """The error of a node's result."""

    #: The graphs around it; empty in the model's own graph.
    graph: str
    #: Its name, or that of its first output where it has none.
    node: str
    operator: str
    #: Its type before and after nodes were kept.
    type_before: str
    type_after: str
    #: What decided the latter.
    why: str
    #: The errors of what it gives; ``None`` within other graphs, whose values are no outputs.
    before: float | None
    after: float | None


class PrecisionReport:
    """The results of running a model and its conversion."""

    def __init__(
        self,
        to: str,
        tolerance: float,
        feeds: int,
        runs: int,
        outputs: list[OutputError],
        nodes: list[NodeError],
        kept: list[str],
    ) -> None:
        #: The narrow type.
        self.to = to
        self.tolerance = tolerance
        #: How many inputs there were, and how often the emulated model was made and run on them.
        self.feeds = feeds
        self.runs = runs
        self.outputs = outputs
        #: Every node that computes with floats, in the order of the model.
        self.nodes = nodes
        #: The nodes that the search keeps float, beside those that rules keep.
        self.kept = kept

    @property
    def error(self) -> float:
        """The largest error of an output of the result."""
        return max((one.after for one in self.outputs), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """All figures, as for JSON: infinity is a string."""
        return {
            "to": self.to,
            "tolerance": self.tolerance,
            "inputs": self.feeds,
            "runs": self.runs,
            "outputs": [{"name": one.name, "before": _json(one.before), "after": _json(one.after)} for one in self.outputs],
            "kept": self.kept,
            "nodes": [
                one._asdict() | {"before": _json(one.before), "after": _json(one.after)} for one in self.nodes
            ],
        }

    def save(self, path: _models.Path, *, force: bool = False) -> None:
        """Writes the page to a file, or what :meth:`to_dict` gives to one whose name ends in ``.json``. A
        file that exists is a ``FileExistsError`` without ``force``."""
        path = os.fsdecode(path)
        as_json = path.lower().endswith(".json")
        _native.write_text(path, json.dumps(self.to_dict(), indent=2) + "\n" if as_json else self.page(), force)

    def text(self) -> str:
        """A few lines for people."""
        lines = [
            f"{one.name}: error {_number(one.before)}" + ("" if one.after == one.before else f", now {_number(one.after)}")
            for one in self.outputs
        ]
        if self.kept:
            lines.append(f"{len(self.kept)} nodes kept float: {', '.join(self.kept[:10])}{', ...' * (len(self.kept) > 10)}")
        return "\n".join([*lines, f"{self.runs} runs on {self.feeds} inputs, tolerance {self.tolerance:g}", ""])

    def __repr__(self) -> str:
        return self.text().rstrip()

    def _repr_html_(self) -> str:
        page = html.escape(self.page())
        style = "width: 100%; height: 600px; border: 0"
        return f'<iframe title="Precision" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'

    def page(self) -> str:
        """A self-contained page."""
        outputs = "".join(_row([one.name], one.before, one.after, self.tolerance) for one in self.outputs)
        kept = set(self.kept)
        rows = []
        for one in self.nodes:
            types = one.type_before if one.type_before == one.type_after else f"{one.type_before} → {one.type_after}"
            name = f"{one.graph}: {one.node}" if one.graph else one.node
            mark = "kept" if one.node in kept else ""
            rows.append(_row([name, one.operator, types, one.why], one.before, one.after, self.tolerance, mark))
        text = {
            "title": html.escape(f"Conversion to {self.to}"),
            "summary": html.escape(
                f"{self.feeds} inputs, {self.runs} runs, tolerance {self.tolerance:g} of an output's largest magnitude; "
                f"{len(self.kept)} nodes kept float by the search"
            ),
            "outputs": outputs,
            "nodes": "".join(rows),
        }
        return _PAGE.format_map(text)


def _json(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else "inf"


def _number(number: float | None) -> str:
    return "" if number is None else "inf" if math.isinf(number) else f"{number:.2e}"


def _row(cells: list[str], before: float | None, after: float | None, tolerance: float, mark: str = "") -> str:
    texts = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    errors = "".join(_error(one, tolerance) for one in (before, after))
    return f'<tr class="{mark}">{texts}{errors}</tr>\n'


def _error(number: float | None, tolerance: float) -> str:
    """A cell with a bar on a logarithmic scale, from 1e-8 to 1."""
    if number is None:
        return "<td></td>"
    size = 100.0 if number >= 1 else max(0.0, (math.log10(number) + 8) / 8 * 100) if number > 0 else 0.0
    over = " over" if number > tolerance else ""
    return f'<td class="error{over}"><i style="width:{size:.0f}%"></i><b>{_number(number)}</b></td>'


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.4 system-ui, sans-serif; margin: 2em; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ text-align: left; padding: 2px 10px; border-bottom: 1px solid #8884; }}
td.error {{ position: relative; width: 12em; font-variant-numeric: tabular-nums; }}
td.error i {{ position: absolute; inset: 3px auto 3px 0; background: #6aa84f66; }}
td.error.over i {{ background: #cc000066; }}
td.error b {{ position: relative; font-weight: normal; }}
tr.kept td:first-child::after {{ content: " (kept)"; color: #cc6600; }}
</style></head><body>
<h1>{title}</h1>
<p>{summary}</p>
<h2>Outputs</h2>
<table><thead><tr><th>output</th><th>error before</th><th>error after</th></tr></thead><tbody>
{outputs}</tbody></table>
<h2>Nodes</h2>
<p><label>Filter <input id="filter" type="search"></label></p>
<table id="nodes"><thead><tr><th>node</th><th>operator</th><th>type</th><th>why</th><th>error before</th>
<th>error after</th></tr></thead><tbody>
{nodes}</tbody></table>
<script>
const rows = [...document.querySelectorAll("#nodes tbody tr")];
document.getElementById("filter").addEventListener("input", (event) => {{
  const text = event.target.value.toLowerCase();
  for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(text);
}});
</script>
</body></html>
"""
