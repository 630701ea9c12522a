"""The node's own line at the top of the fleet."""

from __future__ import annotations

from cockpit.node_line import node_line
from cockpit.widgets.painted import PaintedLines
from engine.model import Frame


class NodeHeader(PaintedLines):
    """Name, SIM, GPUs, traffic and clock; `cockpit.node_line` says which stay when it is narrow."""

    DEFAULT_CSS = """
    NodeHeader { height: 1; }
    """

    def show_node(self, frame: Frame | None, now_s: float, waiting: str = "") -> None:
        """Draw the newest frame and the time."""
        if self.size.width:
            self.show((node_line(frame, now_s, self.size.width, waiting),))
