from __future__ import annotations

from pathlib import Path

import pytest

from engine.supervisor.milestones import LAUNCHED, progress

READY_LOG = Path(__file__).with_name("data") / "ready.log"


def test_a_real_start_passes_its_milestones_in_order() -> None:
    reached = [LAUNCHED]
    for line in READY_LOG.read_text().splitlines():
        now = progress([line], reached[-1])
        if now != reached[-1]:
            reached.append(now)
    assert reached == [
        "importing",
        "starting the engine core",
        "loading weights",
        "warming up",
        "allocating KV cache",
        "engine initialised",
        "opening the server",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.2s/it]",
            "loading weights 50%",
        ),
        ("Loading safetensors checkpoint shards (eager):   0% Completed | 0/4", "loading weights 0%"),
        ("Multi-thread loading shards: 25% Completed | 1/4", "before"),
        ("Loading pt checkpoint shards: 100% Completed | 2/2", "loading weights 100%"),
        ("[gpu_model_runner.py:5150] Model loading took 15.27 GiB memory and 8.5 seconds", "weights loaded"),
        ("[default_loader.py:502] Loading weights took 7.02 seconds", "weights loaded"),
        ("[backends.py:1167] [backbone] Dynamo bytecode transform time: 6.10 s", "compiling"),
        ("[backends.py:399] Compiling a graph for compile range (1, 8192) takes 11.20 s", "compiling"),
        ("[gpu_worker.py:760] Available KV cache memory: 52.31 GiB", "allocating KV cache"),
        (
            "Capturing CUDA graphs (decode, FULL):  45%|####5     | 15/35 [00:02<00:02]",
            "capturing graphs 45%",
        ),
        ("[gpu_model_runner.py:6582] Graph capturing finished in 12 secs, took 0.61 GiB", "graphs captured"),
        ("(APIServer pid=1) INFO:     Application startup complete.", "opening the server"),
        ("(APIServer pid=1) INFO [x.py:1] hello", "before"),
        ("", "before"),
    ],
)
def test_a_line_means_a_milestone(line: str, words: str) -> None:
    assert progress([line], "before") == words


def test_the_newest_line_wins() -> None:
    lines = ["Loading weights took 7.02 seconds", "Starting to load model acme/draft..."]
    assert progress(lines) == "loading weights", "a draft model is loaded after the first"
    assert progress([]) == LAUNCHED
