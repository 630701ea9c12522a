"""How long the application takes to start: `python -m tests.bench.cold_start`.

Prints, in one run and interleaved, the median of
- `python -c pass`, for the cost of the interpreter,
- `cockpit --version`,
- the first frame of an empty Textual application,
- the first frame of the cockpit, on a running simulated node.

The first frame is when the terminal has received the first full screen: each application runs in a
pseudo-terminal of 120x40 and ends itself right after its first refresh.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time

from tests.support.cockpit_home import cockpit_home

ROUNDS = 7
LIMIT_S = 30.0

EMPTY = "from textual.app import App\nApp().run()"
COCKPIT = "from cockpit.__main__ import main\nimport sys\nsys.argv = ['cockpit']\nmain()"
SCREEN_BEGINS = b"\x1b[?1049h"
"""A Textual application switches to the alternate screen before its first frame …"""
SYNC_ENDS = b"\x1b[?2026l"
"""… and closes each frame with the end of a synchronised update where the terminal supports it."""


def command_s(command: list[str], environment: dict[str, str]) -> float:
    """Wall time of a command."""
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def first_frame_s(program: str, environment: dict[str, str]) -> float:
    """From the start of Python to the first frame with content; the program is ended then."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [sys.executable, "-c", program], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    taken = float("nan")
    try:
        while time.perf_counter() - began < LIMIT_S:
            if not select.select([terminal], [], [], 0.05)[0]:
                continue
            try:
                seen += os.read(terminal, 65_536)
            except OSError:
                break
            # Asked whether it can synchronise updates, the terminal says yes, so that frames have an end.
            if b"\x1b[?2026$p" in seen:
                os.write(terminal, b"\x1b[?2026;2$y")
                seen = seen.replace(b"\x1b[?2026$p", b"")
            shown = seen.partition(SCREEN_BEGINS)[2]
            if len(shown) > 2_000:  # a full screen of 120x40 takes more than 4 kB
                taken = time.perf_counter() - began
                break
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    return taken


def main() -> None:
    """Measure and print."""
    with cockpit_home() as home:
        home.ok("up", "--sim", "h100x8", "--wait", timeout_s=120)
        env = home.environment | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        version = [sys.executable, "-m", "cockpit", "--version"]
        figures: dict[str, list[float]] = {"python": [], "version": [], "empty": [], "cockpit": []}
        for _ in range(ROUNDS):
            figures["python"].append(command_s([sys.executable, "-c", "pass"], env))
            figures["version"].append(command_s(version, env))
            figures["empty"].append(first_frame_s(EMPTY, env))
            figures["cockpit"].append(first_frame_s(COCKPIT, env))
    ms = {name: statistics.median(values) * 1000 for name, values in figures.items()}
    print(f"python -c pass                    {ms['python']:7.0f} ms")
    print(f"cockpit --version                 {ms['version']:7.0f} ms   (aim: at most 150)")
    print(f"first frame, empty Textual app    {ms['empty']:7.0f} ms")
    print(f"first frame, cockpit              {ms['cockpit']:7.0f} ms")
    print(f"difference of the first frames    {ms['cockpit'] - ms['empty']:7.0f} ms   (aim: at most 250)")
    print(f"median of {ROUNDS} interleaved rounds, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
