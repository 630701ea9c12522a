"""What the node has to say, as Textual messages. Only `cockpit.bridge` posts them."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from engine.events import Event
from engine.model import Frame, NodeView


@dataclass
class NodeConnected(Message):
    """The stream is open: at the start, and again after a loss."""

    node: NodeView


@dataclass
class NodeLost(Message):
    """The node does not answer, or its stream broke off; the bridge goes on trying."""

    problem: str
    """One sentence."""
    hint: str = ""


@dataclass
class NodeStopping(Message):
    """The node goes down because an operator asked for it."""

    by: str


@dataclass
class FrameArrived(Message):
    """The newest frame; at most four a second."""

    frame: Frame

    def can_replace(self, message: Message) -> bool:
        """Latest wins: an older frame that is still queued is not drawn."""
        return isinstance(message, FrameArrived)


@dataclass
class EventArrived(Message):
    """Something happened; every event comes, in order."""

    event: Event
