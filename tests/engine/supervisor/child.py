"""A process tree to be ended: `python child.py [WORD …]`.

deaf        ignores SIGTERM
orphan      has a child in a process group of its own, as vLLM's multi-port mode does
deaf-orphan the same, and that child ignores SIGTERM
exit=N      ends at once with code N
say=TEXT    says TEXT

It says `up` once everything is in place; then it waits.
"""

from __future__ import annotations

import os
import signal
import sys


def main(words: list[str]) -> int:
    for word in words:
        name, _, value = word.partition("=")
        match name:
            case "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "orphan" | "deaf-orphan":
                _bear(deaf=name == "deaf-orphan")
            case "say":
                _say(value)
            case "exit":
                return int(value)
    _say("up")
    while True:
        signal.pause()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _bear(*, deaf: bool) -> None:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if deaf else signal.SIG_DFL)
        os.write(writer, b"x")
        while True:
            signal.pause()
    os.read(reader, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
