"""Where a starting engine is, from the lines of its log.

vLLM binds its port early and answers nothing until it is ready, which takes minutes; its log is
the only thing that tells loading from hanging. Patterns seen in vLLM 0.31 to 0.33.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MILESTONES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Initializing a V1 LLM engine"), "starting the engine core"),
    (re.compile(r"Starting to load model|Loading model from scratch"), "loading weights"),
    (re.compile(r"Loading \S+ checkpoint shards.*?:\s+(?P<detail>\d+%)"), "loading weights"),
    (re.compile(r"Loading weights took|Model loading took"), "weights loaded"),
    (re.compile(r"Starting torch\.compile|Dynamo bytecode transform|Compiling a graph"), "compiling"),
    (re.compile(r"Warming up model|torch\.compile took"), "warming up"),
    (re.compile(r"Available KV cache memory|KV cache size"), "allocating KV cache"),
    (re.compile(r"Capturing CUDA graphs.*?:\s+(?P<detail>\d+%)"), "capturing graphs"),
    (re.compile(r"Graph capturing finished"), "graphs captured"),
    (re.compile(r"init engine .*took"), "engine initialised"),
    (re.compile(r"Starting vLLM (?:API )?server|Application startup complete"), "opening the server"),
)
"""Pattern of a line, and what an operator reads; later ones win over earlier ones in a log."""

LAUNCHED = "importing"
"""Before any line: imports take 10 s per process on a slow machine."""


def progress(lines: Iterable[str], before: str = LAUNCHED) -> str:
    """The newest milestone among `lines`, or `before`; with a percentage where the line has one."""
    reached = before
    for line in lines:
        for pattern, words in reversed(MILESTONES):
            match = pattern.search(line)
            if match is not None:
                detail = match.groupdict().get("detail")
                reached = f"{words} {detail}" if detail else words
                break
    return reached
