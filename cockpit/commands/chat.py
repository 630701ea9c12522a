"""`cockpit chat`."""

from __future__ import annotations

import contextlib
import sys
import time

import click
import msgspec

from cockpit.chat_answer import Answer, AnswerMeter, figures_line
from cockpit.client import NodeApi, NodeClient
from cockpit.commands.session import BAD_INPUT, fail, narrate, with_node
from engine.model import EngineView


@click.command()
@click.option("-m", "--model", help="Deployment, or one replica such as qwen/0; default: the only one.")
@click.option("-s", "--system", help="System prompt.")
@click.option("--temperature", type=float)
@click.option("--max-tokens", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print the answer with its figures as one JSON object.")
@click.argument("prompt", required=False)
def command(
    model: str | None,
    system: str | None,
    temperature: float | None,
    max_tokens: int | None,
    as_json: bool,
    prompt: str | None,
) -> None:
    """Ask a model. Without PROMPT it reads standard input; on a terminal, line by line as a conversation."""
    turns: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []

    def ask(prompt: str) -> None:
        async def run(node: NodeClient) -> None:
            engines = (await node.status()).engines
            target, replica = _target(model, engines)
            asked = [*turns, {"role": "user", "content": prompt}]
            answer = await _answer(node, target, asked, replica, temperature, max_tokens, quiet=as_json)
            turns[:] = [*asked, {"role": "assistant", "content": answer.text}]
            if as_json:
                click.echo(msgspec.json.encode(answer).decode())
            else:
                click.echo("")
                simulated = any(e.name == answer.served_by and e.simulated for e in engines)
                narrate(figures_line(answer, simulated=simulated))

        with_node(run)

    if prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.buffer.read().decode(errors="replace")
    if prompt is not None:
        if not prompt.strip():
            fail("the prompt is empty", 'give one: cockpit chat "…"', BAD_INPUT)
        ask(prompt)
    elif not sys.stdout.isatty():
        fail("no prompt", 'give one: cockpit chat "…"', BAD_INPUT)
    else:
        # Read outside of the event loop: a thread that waits for input cannot be interrupted.
        with contextlib.suppress(EOFError, KeyboardInterrupt):
            while True:
                if line := input("> ").strip():
                    ask(line)
        click.echo("")


async def _answer(
    node: NodeApi,
    target: str,
    turns: list[dict[str, str]],
    replica: str | None,
    temperature: float | None,
    max_tokens: int | None,
    *,
    quiet: bool,
) -> Answer:
    meter = AnswerMeter(time.monotonic())
    answer = node.chat(target, turns, replica=replica, temperature=temperature, max_tokens=max_tokens)
    async for chunk in answer:
        meter.add(chunk, time.monotonic())
        if chunk.text and not quiet:
            sys.stdout.write(chunk.text)
            sys.stdout.flush()
    return meter.answer()


def _target(asked: str | None, engines: tuple[EngineView, ...]) -> tuple[str, str | None]:
    """The deployment to ask, and the replica when one is pinned."""
    deployments = sorted({engine.deployment for engine in engines})
    if asked is None:
        if len(deployments) == 1:
            return deployments[0], None
        fail(
            "say which model" if deployments else "nothing is deployed",
            f"-m with one of: {', '.join(deployments)}" if deployments else "`cockpit up -c FILE`",
            BAD_INPUT,
        )
    pinned = next((engine for engine in engines if engine.name == asked), None)
    return (pinned.deployment, pinned.name) if pinned else (asked, None)
