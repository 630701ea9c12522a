"""The worst problem in one line; nothing at all when all is well."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.glyphs import Glyphs
from cockpit.problems import Problem
from cockpit.spans import Line, Role, apart, fit_line, line_cells
from cockpit.widgets.painted import PaintedLines
from engine.events import Severity


class ProblemLine(PaintedLines):
    """Shows one of several problems and which of how many; takes no room without any."""

    DEFAULT_CSS = """
    ProblemLine { height: auto; }
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._glyphs = glyphs
        self._problems: tuple[Problem, ...] = ()
        self._shown: Problem | None = None

    @property
    def problem(self) -> Problem | None:
        """The one in sight."""
        return self._shown

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """These, worst first; the one in sight stays while it lasts and nothing worse than before came."""
        worst_before = self._problems[:1]
        self._problems = tuple(problems)
        same = [problem for problem in self._problems if _alike(problem, self._shown)]
        worse = bool(worst_before) and not _alike(worst_before[0], next(iter(self._problems), None))
        self._shown = same[0] if same and not worse else next(iter(self._problems), None)
        self._draw()

    def next(self) -> Problem | None:
        """Go to the next one, from the last to the first."""
        if self._problems:
            at = self._problems.index(self._shown) if self._shown in self._problems else -1
            self._shown = self._problems[(at + 1) % len(self._problems)]
            self._draw()
        return self._shown

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        problem, width = self._shown, self.size.width or self.app.size.width
        if problem is None:
            self.show(())
            return
        role: Role = "error" if problem.severity is Severity.ERROR else "warning"
        glyph = self._glyphs.error if problem.severity is Severity.ERROR else self._glyphs.warning
        what: Line = ((f" {glyph} {problem.what}", role),)
        at, total = self._problems.index(problem) + 1, len(self._problems)
        count = f"   {at} of {total} " if total > 1 else " "
        remedy: Line = ((f"   {problem.remedy}", "text"),) if problem.remedy else ()
        right: Line = ((count, "muted"),)
        if line_cells(what) + line_cells(remedy) + line_cells(right) <= width:
            self.show((apart((*what, *remedy), right, width),))
        elif remedy:
            # Cause and remedy do not fit one line: the remedy gets its own.
            self.show((apart(what, right, width), fit_line(remedy, width)))
        else:
            self.show((apart(what, right, width),))


def _alike(one: Problem, other: Problem | None) -> bool:
    """The same trouble, whatever its countdown says now."""
    return other is not None and (one.row_key, one.severity) == (other.row_key, other.severity)
