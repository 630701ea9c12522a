"""Records for the tests of the store."""

from __future__ import annotations

from storage.records import ConversationValues, EngineSample, EventRecord, GpuSample, LaunchStart


def event(message: str = "qwen/0 is ready", *, target: str = "qwen/0", at_s: float = 100.0) -> EventRecord:
    return EventRecord(
        at_s=at_s,
        kind="engine.ready",
        target=target,
        message=message,
        actor_name="ada",
        actor_uid=1000,
        severity="info",
        reason="asked",
        outcome="ready",
    )


def launch(engine: str = "qwen/0", pid: int = 42) -> LaunchStart:
    return LaunchStart(engine, 100.0, pid, pid, 777, "boot", f"/logs/{pid}.log", ("python", "-m", "vllm"))


def conversation(title: str = "first") -> ConversationValues:
    return ConversationValues(title, "qwen", "be brief", 0.7, 512)


def gpu(at_s: float, uuid: str = "GPU-0") -> GpuSample:
    return GpuSample(at_s, uuid, utilisation_ratio=0.5, memory_used_bytes=2**36)


def engine(at_s: float, name: str = "qwen/0") -> EngineSample:
    return EngineSample(at_s, name, "ready", in_flight=3)
