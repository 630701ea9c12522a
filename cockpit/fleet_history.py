"""What the last minutes looked like, from the frames that came since the interface opened."""

from __future__ import annotations

from collections import deque

from engine.model import Frame

KEPT_FRAMES = 300
"""Five minutes at a frame a second."""

Series = tuple[float | None, ...]
"""One value a frame, oldest first; None where it was unknown."""


def total_tokens_per_s(frame: Frame) -> float | None:
    """Tokens generated per second over all engines; None where no engine says it."""
    known = [
        engine.reading.generation_tokens_per_s
        for engine in frame.engines
        if engine.reading is not None and engine.reading.generation_tokens_per_s is not None
    ]
    return sum(known) if known else None


class FleetHistory:
    """Frames of the last minutes, read as series."""

    def __init__(self, kept: int = KEPT_FRAMES) -> None:
        self._frames: deque[Frame] = deque(maxlen=kept)

    def add(self, frame: Frame) -> None:
        """One more; the oldest is dropped."""
        self._frames.append(frame)

    def tokens_per_s(self) -> Series:
        """Of all engines together."""
        return tuple(total_tokens_per_s(frame) for frame in self._frames)

    def ttft_p95_s(self) -> Series:
        """As clients see it at the gateway."""
        return tuple(frame.gateway.ttft_p95_s for frame in self._frames)

    def utilisation(self, gpu_uuid: str, count: int) -> Series:
        """A GPU's last `count` utilisation ratios."""
        return tuple(
            next((gpu.utilisation_ratio for gpu in frame.gpus if gpu.uuid == gpu_uuid), None)
            for frame in self._last(count)
        )

    def kv_used(self, engine: str, count: int) -> Series:
        """An engine's last `count` KV cache ratios."""
        return tuple(
            next((view.kv_used_ratio for view in frame.engines if view.name == engine), None)
            for frame in self._last(count)
        )

    def _last(self, count: int) -> list[Frame]:
        frames = self._frames
        return [frames[index] for index in range(max(0, len(frames) - count), len(frames))]
