"""Choosing GPUs: a tick and a word, not a colour alone, say which are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from engine.model import GpuReading

IN_USE_RATIO = 0.1
"""A GPU with more of its memory taken serves somebody already, though no engine of ours; an idle one
holds some hundred MiB."""


class GpuChooser(OptionList):
    """A row for each GPU with its memory and the engine on it; space or enter ticks it."""

    BINDING_GROUP_TITLE = "GPUs"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", "Choose", show=False)]
    DEFAULT_CSS = """
    GpuChooser { height: auto; max-height: 8; scrollbar-size-vertical: 1; }
    """

    @dataclass
    class Changed(Message):
        """Others are chosen."""

        chooser: GpuChooser

    def __init__(self) -> None:
        super().__init__(id="gpus", compact=True)
        self._rows: dict[int, str] = {}
        self._chosen: set[int] = set()

    @property
    def chosen(self) -> tuple[int, ...]:
        """Indexes of the chosen GPUs, rising."""
        return tuple(sorted(self._chosen))

    def offer(self, gpus: Sequence[GpuReading], owners: Mapping[int, str]) -> None:
        """Show these; the free ones are chosen.

        Args:
            owners: engine on a GPU, by the GPU's index.
        """
        self._rows = {gpu.index: _row(gpu, owners.get(gpu.index)) for gpu in gpus}
        self._chosen = {gpu.index for gpu in gpus if gpu.index not in owners and not _in_use(gpu)}
        self.clear_options()
        self.add_options(Option(self._prompt(index), id=str(index)) for index in self._rows)
        self.highlighted = 0 if self._rows else None
        self.post_message(self.Changed(self))

    def choose(self, *indexes: int) -> None:
        """Choose exactly these."""
        self._chosen = set(indexes) & set(self._rows)
        for index in self._rows:
            self.replace_option_prompt(str(index), self._prompt(index))
        self.post_message(self.Changed(self))

    @on(OptionList.OptionSelected)
    def _toggled(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.choose(*self._chosen ^ {int(event.option_id or 0)})

    def _prompt(self, index: int) -> Content:
        return Content(f"[{'x' if index in self._chosen else ' '}] {self._rows[index]}")


def _in_use(gpu: GpuReading) -> bool:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return used is not None and total is not None and used > total * IN_USE_RATIO


def _row(gpu: GpuReading, owner: str | None) -> str:
    used = "–" if gpu.memory_used_bytes is None else f"{gpu.memory_used_bytes / 2**30:.1f}"
    total = "–" if gpu.memory_total_bytes is None else f"{gpu.memory_total_bytes / 2**30:.0f}"
    mark = "  SIM" if gpu.simulated else ""
    return f"gpu{gpu.index}  {gpu.name}  {used:>5} of {total} GiB{mark}" + (f"  {owner}" if owner else "")
