from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import msgspec
import pytest

from storage import queries
from storage.errors import RejectedError, StorageError, UnknownRecordError
from storage.records import DeploymentRecord, LaunchEnd, MessageValues
from storage.store import Store, open_store
from tests.storage import records


def ticking() -> Callable[[], float]:
    """A clock that is a second further at each look."""
    seconds = count(1_000)
    return lambda: float(next(seconds))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "cockpit.db", now=ticking()) as opened:
        yield opened


async def test_an_event_comes_back_as_it_was_given(store: Store) -> None:
    kept, durable = await store.add_event(records.event())
    assert durable
    assert kept == msgspec.structs.replace(records.event(), id=1)
    assert await store.read.events(10) == (kept,)


async def test_events_are_listed_newest_first_and_paged(store: Store) -> None:
    for i in range(1, 8):
        await store.add_event(records.event(str(i)))
    assert [event.id for event in await store.read.events(3)] == [7, 6, 5]
    assert [event.id for event in await store.read.events(3, before=5)] == [4, 3, 2]
    assert [event.id for event in await store.read.events(3, after=2)] == [3, 4, 5]
    assert [event.id for event in await store.read.events(9, after=2, before=5)] == [3, 4]


async def test_a_deployments_events_are_those_of_its_engines_too(store: Store) -> None:
    for target in ("qwen", "qwen/0", "qwen/1", "qwen2", "qwen2/0", "node"):
        await store.add_event(records.event(target=target))
    assert [e.target for e in await store.read.events(9, target="qwen")] == ["qwen/1", "qwen/0", "qwen"]
    assert [e.target for e in await store.read.events(9, target="qwen/0")] == ["qwen/0"]


async def test_a_target_is_no_pattern(store: Store) -> None:
    await store.add_event(records.event(target="qwen/0"))
    await store.add_event(records.event(target="q*[?]/0"))
    assert [e.target for e in await store.read.events(9, target="q*[?]")] == ["q*[?]/0"]
    assert await store.read.events(9, target="*") == ()


async def test_half_a_surrogate_from_a_path_does_not_lose_the_event(store: Store) -> None:
    kept, durable = await store.add_event(records.event("no model at /m/\udcff, für Ada"))
    assert durable
    (found,) = await store.read.events(1)
    assert found.message == "no model at /m/\\udcff, für Ada"
    assert found.id == kept.id


async def test_a_launch_is_open_until_its_first_end(store: Store) -> None:
    first = await store.start_launch(records.launch(pid=42))
    second = await store.start_launch(records.launch("qwen/1", pid=43))
    await store.launch_ready(first, 130.0)
    assert [launch.id for launch in await store.read.open_launches()] == [first, second]
    end = LaunchEnd(140.0, "signal", "killed", "look", None, "SIGKILL", ("Traceback", "\udcffouch"), False)
    await store.end_launch(first, end)
    await store.end_launch(first, LaunchEnd(150.0, "unknown", "told again"))
    found = await store.read.launch(first)
    assert found is not None
    assert found.end == msgspec.structs.replace(end, last_error_lines=("Traceback", "\\udcffouch"))
    assert (found.ready_at_s, found.argv, found.boot_id) == (130.0, ("python", "-m", "vllm"), "boot")
    assert [launch.id for launch in await store.read.open_launches()] == [second]
    assert [launch.id for launch in await store.read.launches(10)] == [second, first]
    assert [launch.id for launch in await store.read.launches(10, "qwen/0")] == [first]
    assert await store.read.launch(99) is None


async def test_deployments_are_replaced_as_a_whole_or_not_at_all(store: Store) -> None:
    await store.replace_deployments([DeploymentRecord("b", "{}"), DeploymentRecord("a", "{}")])
    await store.set_wanted(["b/0", "b/1"], True)
    with pytest.raises(RejectedError, match="UNIQUE"):
        await store.replace_deployments([DeploymentRecord("c", "{}"), DeploymentRecord("c", "{}")])
    assert [each.name for each in await store.read.deployments()] == ["b", "a"]
    assert await store.read.wanted() == {"b/0": True, "b/1": True}


async def test_a_deployment_is_added_last_and_forgotten_with_its_engines(store: Store) -> None:
    for name in ("qwen", "qwen_2", "qwen%"):
        await store.add_deployment(DeploymentRecord(name, f'{{"name":"{name}"}}'))
    await store.set_wanted(["qwen/0", "qwen_2/0"], True)
    await store.set_wanted(["qwen_2/0"], False)
    await store.forget_deployment("qwen")
    assert [each.name for each in await store.read.deployments()] == ["qwen_2", "qwen%"]
    assert await store.read.wanted() == {"qwen_2/0": False}
    with pytest.raises(RejectedError):
        await store.add_deployment(DeploymentRecord("qwen_2", "{}"))


async def test_a_choice_is_remembered_changed_and_forgotten(store: Store) -> None:
    assert await store.read.setting("theme") is None
    for value in ("night", "paper"):
        await store.set_setting("theme", value)
        assert await store.read.setting("theme") == value
    await store.set_setting("theme", None)
    assert await store.read.setting("theme") is None


async def test_what_is_changed_at_once_ends_as_the_last_call_said(store: Store) -> None:
    await asyncio.gather(*(store.set_setting("theme", str(i)) for i in range(100)))
    assert await store.read.setting("theme") == "99"


async def test_a_conversation_lives_with_its_messages(store: Store) -> None:
    begun = await store.create_conversation(records.conversation())
    asked = await store.add_message(begun.id, MessageValues("user", "hello"))
    said = await store.add_message(
        begun.id, MessageValues("assistant", "hi", "qwen/0", 0.1, 31.5, 7, 12, 3, "stop", None)
    )
    found = await store.conversation(begun.id)
    assert found.messages == (asked, said)
    assert found.updated_at_s == said.at_s > begun.updated_at_s
    changed = await store.update_conversation(begun.id, records.conversation("renamed"))
    assert (changed.title, changed.messages) == ("renamed", (asked, said))
    assert await store.conversation(begun.id) == changed
    await store.delete_messages_from(begun.id, said.id)
    assert (await store.conversation(begun.id)).messages == (asked,)
    await store.delete_conversation(begun.id)
    with pytest.raises(UnknownRecordError, match=f"there is no conversation {begun.id}"):
        await store.conversation(begun.id)


async def test_removing_a_turn_and_later_ones_touches_no_other_conversation(store: Store) -> None:
    one = await store.create_conversation(records.conversation("one"))
    two = await store.create_conversation(records.conversation("two"))
    first = await store.add_message(one.id, MessageValues("user", "a"))
    await store.add_message(two.id, MessageValues("user", "b"))
    await store.add_message(one.id, MessageValues("assistant", "c"))
    await store.delete_messages_from(one.id, first.id)
    assert (await store.conversation(one.id)).messages == ()
    assert [m.content for m in (await store.conversation(two.id)).messages] == ["b"]


async def test_conversations_are_listed_last_used_first_without_messages(store: Store) -> None:
    one = await store.create_conversation(records.conversation("one"))
    await store.create_conversation(records.conversation("two"))
    await store.add_message(one.id, MessageValues("user", "a"))
    assert [(c.title, c.messages) for c in await store.read.conversations()] == [("one", ()), ("two", ())]


async def test_what_is_done_to_no_conversation_says_so(store: Store) -> None:
    for attempt in (
        store.add_message(7, MessageValues("user", "a")),
        store.update_conversation(7, records.conversation()),
        store.delete_conversation(7),
    ):
        with pytest.raises(UnknownRecordError, match="there is no conversation 7"):
            await attempt
    assert store.problem is None


async def test_a_refused_message_of_a_known_conversation_is_not_called_unknown(store: Store) -> None:
    begun = await store.create_conversation(records.conversation())
    with pytest.raises(RejectedError):
        await store.add_message(begun.id, MessageValues("user", "a", completion_tokens=2**64))
    assert (await store.conversation(begun.id)).messages == ()


async def test_the_id_of_a_deleted_conversation_is_not_given_again(tmp_path: Path) -> None:
    async with open_store(tmp_path / "cockpit.db") as store:
        begun = await store.create_conversation(records.conversation())
        await store.delete_conversation(begun.id)
    async with open_store(tmp_path / "cockpit.db") as store:
        assert (await store.create_conversation(records.conversation())).id == begun.id + 1


async def test_samples_come_back_by_name_and_span_unknown_as_none(store: Store) -> None:
    for at_s in (1.0, 2.0, 3.0):
        store.add_samples(
            [records.gpu(at_s), records.gpu(at_s, "GPU-1")],
            [records.engine(at_s), records.engine(at_s, "b/0")],
        )
    await store.set_setting("after", "them")
    assert await store.read.gpu_samples("GPU-1", 1.0, 3.0) == (
        records.gpu(1.0, "GPU-1"),
        records.gpu(2.0, "GPU-1"),
    )
    assert await store.read.engine_samples("b/0", 2.0, 9.0) == (
        records.engine(2.0, "b/0"),
        records.engine(3.0, "b/0"),
    )
    assert (await store.read.gpu_samples("GPU-0", 1.0, 2.0))[0].power_w is None


async def test_a_time_told_twice_keeps_the_last_sample(store: Store) -> None:
    store.add_samples([records.gpu(1.0)], [])
    store.add_samples([msgspec.structs.replace(records.gpu(1.0), power_w=300.0)], [])
    await store.set_setting("after", "them")
    assert [sample.power_w for sample in await store.read.gpu_samples("GPU-0", 0.0, 9.0)] == [300.0]
    assert store.dropped_samples == 0


async def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    async with open_store(path) as store:
        kept, _ = await store.add_event(records.event())
        await store.replace_deployments([DeploymentRecord("qwen", '{"name":"qwen"}')])
        await store.set_wanted(["qwen/0"], True)
        begun = await store.create_conversation(records.conversation())
        launch_id = await store.start_launch(records.launch())
        store.add_samples([records.gpu(1.0)], [])
    assert [each.name for each in tmp_path.iterdir()] == ["cockpit.db"], "the log was folded in"
    async with open_store(path) as store:
        assert store.notice is None
        assert await store.read.events(9) == (kept,)
        assert await store.read.deployments() == (DeploymentRecord("qwen", '{"name":"qwen"}'),)
        assert await store.read.wanted() == {"qwen/0": True}
        assert await store.read.conversations() == (begun,)
        assert [each.id for each in await store.read.open_launches()] == [launch_id]
        assert await store.read.gpu_samples("GPU-0", 0.0, 9.0) == (records.gpu(1.0),)
        assert (await store.add_event(records.event()))[0].id == 2


async def test_a_user_who_is_cancelled_still_gets_everything_written(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.db"
    opened = asyncio.Event()

    async def use() -> None:
        async with open_store(path) as store:
            adding = [asyncio.ensure_future(store.add_event(records.event(str(i)))) for i in range(1_500)]
            await asyncio.sleep(0)
            opened.set()
            await asyncio.gather(*adding)

    task = asyncio.create_task(use())
    await opened.wait()
    for _ in range(50):  # an impatient one, also while what waits is being written
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with open_store(path) as store:
        assert len(await store.read.events(9_999)) == 1_500


async def test_a_question_without_an_answer_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "READ_LIMIT_S", 0.05)
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(StorageError, match=r"no answer within 0\.05 s"):
        await store.read._rows(forever, [])
    monkeypatch.setattr(queries, "READ_LIMIT_S", 10.0)
    assert await store.read.events(1) == ()


async def test_a_question_that_makes_no_sense_is_an_error_of_ours(store: Store) -> None:
    with pytest.raises(StorageError, match="cannot be read: no such table"):
        await store.read._rows("SELECT * FROM nowhere", [])


async def test_how_long_samples_are_kept_can_change_and_events_stay(store: Store) -> None:
    events_s = store._writer.limits.events_s
    store.keep_samples(60.0)
    assert store._writer.limits.samples_s == 60.0
    assert store._writer.limits.events_s == events_s
