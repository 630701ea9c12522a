"""`cockpit`, and `python -m cockpit`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Check that the packages are ours, then run the command line.

    `engine` and `storage` are common names: another distribution in the same environment may have
    taken them, which is said plainly instead of failing somewhere inside.
    """
    import engine
    import storage

    here = Path(__file__).resolve().parent.parent
    for package in (engine, storage):
        found = Path(str(package.__file__)).resolve().parent.parent
        if found != here:
            sys.stderr.write(
                f"cockpit: the package `{package.__name__}` in {found} is not the cockpit's; "
                "install vllm-cockpit into an environment of its own (pipx, uv tool)\n"
            )
            raise SystemExit(2)
    if len(sys.argv) == 1:
        # The interface needs no command line: click takes 40 ms of the time to its first frame.
        from cockpit.commands.open import run

        run()
        return
    from cockpit.cli import cli

    cli()


if __name__ == "__main__":
    main()
