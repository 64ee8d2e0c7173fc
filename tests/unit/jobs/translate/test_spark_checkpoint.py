from pathlib import Path

import pytest

from gateway.jobs.translate.checkpoint_job import of_source
from gateway.jobs.translate.spark_checkpoint import (
    BadCheckpoint,
    goes_on_from,
    of_topics,
    parse_offsets,
    read_checkpoint,
    render_offsets,
    require_no_writer,
    require_unwritten,
    state_of,
    write_checkpoint,
)

BATCH = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "old"
    for name in ("offsets", "commits", "sources/0", "state/0/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"q"}')
    (folder / "offsets/0").write_text(f'v1\n{BATCH}\n{{"t":{{"0":5}}}}\n-')
    (folder / "offsets/10").write_text(f'v1\n{BATCH}\n{{"t":{{"0":9,"1":4}}}}\n{{"logOffset":3}}')
    (folder / "offsets/.10.crc").write_bytes(b"crc")
    (folder / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "sources/0/0").write_bytes(b'\x00v1\n{"t":{"0":1}}')
    (folder / "state/0/0/1.delta").write_bytes(b"state")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def later(line: str) -> str:
    return render_offsets({key: at + 100 for key, at in (parse_offsets(line) or {}).items()})


def test_rewritten_into_a_new_folder(old: Path, tmp_path: Path) -> None:
    before = content(old)
    files = read_checkpoint(old)

    assert [(file.path, file.kafka) for file in files] == [
        ("offsets/0", {2: frozenset("t")}),
        ("offsets/10", {2: frozenset("t")}),
        ("sources/0/0", {1: frozenset("t")}),
    ]
    new = tmp_path / "new"
    write_checkpoint(old, new, [file.with_lines({n: later(file.lines[n]) for n in file.kafka}) for file in files])

    after = content(new)
    assert content(old) == before
    assert after.pop("offsets/10").decode() == f'v1\n{BATCH}\n{{"t":{{"0":109,"1":104}}}}\n{{"logOffset":3}}'
    assert after.pop("offsets/0").decode() == f'v1\n{BATCH}\n{{"t":{{"0":105}}}}\n-'
    assert after.pop("sources/0/0") == b'\x00v1\n{"t":{"0":101}}'
    assert after == {name: before[name] for name in ("metadata", "commits/0", "state/0/0/1.delta")}


def test_an_existing_folder_is_not_touched(old: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(BadCheckpoint, match="exists"):
        write_checkpoint(old, tmp_path / "new", read_checkpoint(old))


def test_a_folder_that_somebody_else_has_made_is_not_removed(old: Path, tmp_path: Path) -> None:
    """Of another run that is writing, or not a checkpoint at all."""
    part = tmp_path / "new.part"
    part.mkdir()
    (part / "theirs").write_text("kept")
    with pytest.raises(BadCheckpoint, match=r"new\.part: it exists.*remove it when no other one runs"):
        write_checkpoint(old, tmp_path / "new", read_checkpoint(old))
    assert content(part) == {"theirs": b"kept"}


def test_a_folder_in_the_old_one(old: Path) -> None:
    with pytest.raises(BadCheckpoint, match="it lies in"):
        write_checkpoint(old, old / "state/new", read_checkpoint(old))


@pytest.mark.parametrize("written", ["offsets/11", "commits/0", "state/0/0/2.delta"])
def test_a_query_that_writes_while_it_is_copied(old: Path, tmp_path: Path, written: str) -> None:
    before = state_of(old)

    def check() -> None:
        (old / written).write_text("a batch later")  # as if it were while the copy was made
        require_unwritten(old, before)

    with pytest.raises(BadCheckpoint, match=rf"{written} was written.*stop the query"):
        write_checkpoint(old, tmp_path / "new", read_checkpoint(old), check)
    assert [path.name for path in tmp_path.iterdir()] == ["old"], "nothing is left of the copy"


def test_other_versions_are_refused(old: Path) -> None:
    (old / "offsets/10").write_text("v9\n{}\n")
    with pytest.raises(BadCheckpoint, match=r"offsets/10: version 'v9' is not known"):
        read_checkpoint(old)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(BadCheckpoint, match="no folder offsets"):
        read_checkpoint(tmp_path)


def test_other_sources_are_left_alone() -> None:
    for line in ("-", '{"logOffset":3}', "12", '{"shards":[1]}', ""):
        assert parse_offsets(line) is None


def test_lines_of_another_cluster_stay_as_they_are(old: Path) -> None:
    (old / "offsets/10").write_text(f'v1\n{BATCH}\n{{"t":{{"0":9}}}}\n{{"elsewhere":{{"0":3}}}}')
    files = of_topics(read_checkpoint(old), {"t"})
    (last,) = [file for file in files if file.path == "offsets/10"]
    assert last.kafka == {2: frozenset("t")}
    assert last.with_lines({2: "{}"}).lines[2:] == ("{}", '{"elsewhere":{"0":3}}')
    assert last.lines[3] == '{"elsewhere":{"0":3}}'

    with pytest.raises(BadCheckpoint, match="no source in the checkpoint"):
        of_topics(read_checkpoint(old), {"others"})


def test_a_line_of_which_the_cluster_has_half(old: Path) -> None:
    (old / "offsets/10").write_text(f'v1\n{BATCH}\n{{"t":{{"0":9}},"gone":{{"0":3}}}}\n-')
    with pytest.raises(BadCheckpoint, match=r"offsets/10: the source cluster has no topic gone"):
        of_topics(read_checkpoint(old), {"t"})


@pytest.mark.parametrize(
    ("offsets", "commits", "begins"),
    [
        ([0, 10], [0, 10], ("offsets/10",)),
        ([0, 10], [0], ("offsets/0", "offsets/10")),
        ([9, 10], [9], ("offsets/9", "offsets/10")),
        ([0], [], ("sources/0/0", "sources/1/0", "offsets/0")),
    ],
)
def test_a_batch_without_a_commit_is_run_again(
    tmp_path: Path, offsets: list[int], commits: list[int], begins: tuple[str, ...]
) -> None:
    for name in ("offsets", "commits", "sources/0", "sources/1"):
        (tmp_path / name).mkdir(parents=True)
    for batch in offsets:
        (tmp_path / f"offsets/{batch}").write_text(f'v1\n{BATCH}\n{{"t":{{"0":5}}}}\n{{"t":{{"0":6}}}}')
    for batch in commits:
        (tmp_path / f"commits/{batch}").write_text("v1\n{}")
    for source in (0, 1):
        (tmp_path / f"sources/{source}/0").write_bytes(b'\x00v1\n{"t":{"0":1}}')
    assert goes_on_from(tmp_path, read_checkpoint(tmp_path)) == begins


def test_a_query_whose_batch_takes_long(old: Path) -> None:
    """Nothing in the folder is written while it runs: the commit that is missing tells."""
    newest = (old / "offsets/10").stat().st_mtime
    with pytest.raises(BadCheckpoint, match=r"its last batch, 10, is not committed.*say so with --query-stopped"):
        require_no_writer(old, now_s=newest + 3600)
    require_no_writer(old, now_s=newest + 3600, stopped=True)
    with pytest.raises(BadCheckpoint, match="was written 3 s ago"):
        require_no_writer(old, now_s=newest + 3, stopped=True)


def test_a_query_that_may_run(old: Path) -> None:
    (old / "commits/10").write_text('v1\n{"nextBatchWatermarkMs":0}')
    newest = (old / "commits/10").stat().st_mtime
    with pytest.raises(BadCheckpoint, match="was written 3 s ago, so a query may run on it"):
        require_no_writer(old, now_s=newest + 3)
    require_no_writer(old, now_s=newest + 60)


@pytest.mark.parametrize("folder", ["s3a://bucket/q", "hdfs://h/q"])
def test_a_folder_elsewhere(folder: str) -> None:
    with pytest.raises(BadCheckpoint, match="only folders of this machine"):
        read_checkpoint(Path(folder))


def test_a_topic_that_was_created_anew_since(old: Path) -> None:
    """The query's own offsets say of which topic they are: those of another one are not to be translated by its map."""
    (old / "offsets/0").write_text(f'v1\n{BATCH}\n{{"t":{{"0":5}},"@ids":{{"t":"0a"}}}}\n-')
    (old / "offsets/10").write_text(f'v1\n{BATCH}\n{{"t":{{"0":9}},"@ids":{{"t":"0b"}}}}\n{{"logOffset":3}}')
    (old / "commits/10").write_text("v1\n{}")
    files = read_checkpoint(old)
    begins = goes_on_from(old, files)
    with pytest.raises(BadCheckpoint, match=r"offsets/10: topic t had the id 0b.*has 0c now.*created anew"):
        of_source(files, begins, {"t": "0c"})
    assert of_source(files, begins, {"t": "0b"}) == files, "what older batches read does not matter"
    assert of_source(files, begins, {"t": ""}) == files, "a broker without topic ids"
