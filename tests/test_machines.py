"""Machines that lack something or change it meanwhile: one clear line, nothing half-written, nothing lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import pytest

import bnfold as package
from bnfold.errors import BadInput, BnfoldError
from bnfold.pipeline import job
from bnfold.settings import OutputOptions, VerifyOptions
from tests.conftest import MODELS
from tests.ir.build import read
from tests.machine import bnfold, content, file_system, here, refused, unmeasured

resource = pytest.importorskip("resource", reason="no limits on this system")
pytestmark = pytest.mark.large

MODEL = MODELS / "resnet_opset6.onnx"
QUICK = VerifyOptions(depth="none")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an old output that has a data file."""
    folder = tmp_path / "place"
    folder.mkdir()
    job.process(MODELS / "dense.onnx", OutputOptions(folder / "out.onnx", "out.onnx.data"), package.Options(), QUICK)
    assert set(content(folder)) == {"out.onnx", "out.onnx.data"}
    return folder


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody may write there. Root may everywhere, but not on a file system that is mounted read-only."""
    if os.geteuid():
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    before = content(folder)
    with file_system(folder, "size=8m"):
        for name, data in before.items():
            (folder / name).write_bytes(data)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield


@pytest.mark.parametrize("external", ["auto", "out.onnx.data"])
def test_a_read_only_folder(place: Path, external: str) -> None:
    before = content(place)
    with read_only(place):
        refused(bnfold("optimize", MODEL, place / "out.onnx", "--external-data", external), "out.onnx", "cannot be")
        assert content(place) == before


def test_a_report_in_a_read_only_folder(place: Path, tmp_path: Path) -> None:
    with read_only(place):
        process = bnfold("optimize", MODEL, tmp_path / "m.onnx", "-q", "--no-verify", "--report", place / "r.json")
        refused(process, "r.json", "cannot be written")


def test_models_of_a_folder_into_a_read_only_one(place: Path, tmp_path: Path) -> None:
    source = tmp_path / "models"
    source.mkdir()
    for name in ("a", "b"):
        (source / f"{name}.onnx").write_bytes((MODELS / "bn9.onnx").read_bytes())
    with read_only(place):
        process = bnfold("optimize", source, place / "below", "--no-verify", "--jobs", "1")
    assert process.returncode == 1
    assert "internal error" not in process.stderr
    assert "Traceback" not in process.stderr
    assert (process.stdout + process.stderr).count("cannot be made: Read-only file system") == 2


@pytest.mark.parametrize("size", [0, 1000, 30_000, 100_000])
@pytest.mark.parametrize("external", ["none", "out.onnx.data", "w.bin"])
def test_files_that_may_not_grow(place: Path, size: int, external: str) -> None:
    """The portable stand-in for a full disk: writing fails somewhere on the way."""
    before = content(place)
    process = bnfold(
        *("optimize", MODEL, place / "out.onnx", "-q", "--external-data", external),
        limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    refused(process, "out.onnx: cannot be written: File too large")
    assert content(place) == before


def test_a_full_disk(tmp_path: Path) -> None:
    for size in (8, 60, 150, 400):
        with file_system(tmp_path / "disk", f"size={size}k") as disk:
            process = bnfold("optimize", MODEL, disk / "out.onnx", "-q", "--external-data", "w.bin")
            if process.returncode == 0:
                assert set(content(disk)) == {"out.onnx", "w.bin"}
                break
            refused(process, "No space left on device")
            assert content(disk) == {}
    else:
        pytest.fail("it never fits")


def test_a_report_that_does_not_fit(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("old", encoding="utf-8")
    process = bnfold(
        *("inspect", MODEL, "--report", report),
        limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    refused(process, "report.json", "cannot be written")
    assert content(tmp_path) == {"report.json": b"old"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
@pytest.mark.parametrize("arguments", [("optimize", MODEL, "-", "-q"), ("inspect", MODEL, "--json")])
def test_standard_output_that_is_full(arguments: tuple[str | Path, ...]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, "-m", "bnfold", *map(str, arguments)]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert "No space left" in process.stderr
    assert "Traceback" not in process.stderr


def test_standard_streams_that_are_closed(tmp_path: Path) -> None:
    """No file may take the number of one, to be written into by whoever prints."""

    def close() -> None:
        for number in range(3):
            os.close(number)

    command = [sys.executable, "-m", "bnfold", "optimize", str(MODEL), str(tmp_path / "out.onnx")]
    assert subprocess.run(command, preexec_fn=close, check=False).returncode == 0
    expected = package.optimize(MODEL, verify=QUICK).to_proto()
    assert onnx.load(tmp_path / "out.onnx") == expected
    for source, output in ((MODEL, "-"), ("-", tmp_path / "other.onnx")):
        command = [sys.executable, "-m", "bnfold", "optimize", str(source), str(output)]
        assert subprocess.run(command, preexec_fn=close, check=False).returncode == 2
    assert set(content(tmp_path)) == {"out.onnx"}


@pytest.mark.parametrize("when", ["fold", "write", "verify"])
@pytest.mark.parametrize("change", ["truncated", "edited"])
@pytest.mark.parametrize("external", [False, True])
def test_an_input_that_changes_while_it_is_read(place: Path, when: str, change: str, external: bool) -> None:
    source = place / "in.onnx"
    onnx.save(onnx.load(MODEL), source, save_as_external_data=external, location="in.data", size_threshold=0)
    file = place / "in.data" if external else source
    os.utime(file, ns=(10**18, 10**18))
    before = content(place)
    changed = False

    def meddle(phase: str, *_: int) -> None:
        nonlocal changed
        if phase == when and not changed:
            changed = True
            if change == "truncated":
                os.truncate(file, 500)
            else:
                data = bytearray(file.read_bytes())
                data[::4] = bytes(byte ^ external for byte in data[::4])  # weights differ in their last bit
                file.write_bytes(data)

    delivery = OutputOptions(place / "out.onnx", "none")
    try:
        outcome = job.process(source, delivery, package.Options(), VerifyOptions(runtime="none"), meddle)
    except BadInput as error:
        assert str(file) in str(error) or str(source) in str(error)  # noqa: PT017 - it need not be raised
        assert {name: data for name, data in content(place).items() if name != file.name} == {
            name: data for name, data in before.items() if name != file.name
        }
    else:
        # All weights had been read when it happened; what was written is what the model was.
        assert when == "verify" or not changed
        assert outcome.output is not None


def test_an_input_that_never_stays_the_same(tmp_path: Path) -> None:
    """Somebody goes on cutting it short and restoring it. Any outcome but a crash or a wrong model will do."""
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    whole = MODEL.read_bytes()
    source.write_bytes(whole)
    expected = package.optimize(MODEL, verify=QUICK).to_proto()
    stop = threading.Event()

    def meddle() -> None:
        while not stop.is_set():
            os.truncate(source, 1000)
            stop.wait(0.002)
            source.write_bytes(whole)
            stop.wait(0.02)

    thread = threading.Thread(target=meddle)
    thread.start()
    done = 0
    try:
        for _ in range(60):
            try:
                package.optimize(source, output, verify=QUICK)
                done += 1
            except BnfoldError as error:
                assert "\n" not in str(error)  # noqa: PT017 - it need not be raised
            if output.exists():
                assert onnx.load(output) == expected
    finally:
        stop.set()
        thread.join()
    assert done < 60


MAPS = """
import sys
def hook(event, arguments):
    if event == "mmap.__new__":
        raise SystemExit("something was mapped into memory")
sys.addaudithook(hook)
from bnfold import optimize
from bnfold.settings import VerifyOptions, OutputOptions, Options
def watch(phase, *_):
    assert sys.argv[1] not in open("/proc/self/maps").read()
from bnfold.pipeline import job
from pathlib import Path
job.process(Path(sys.argv[1]), OutputOptions(Path(sys.argv[2])), Options(), VerifyOptions(runtime="none"), watch)
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is mapped")
def test_nothing_is_mapped_into_memory(tmp_path: Path) -> None:
    """What is mapped and becomes shorter kills the process with SIGBUS, which nobody can catch."""
    source = tmp_path / "in.onnx"
    onnx.save(onnx.load(MODEL), source, save_as_external_data=True, location="in.data", size_threshold=0)
    subprocess.run([sys.executable, "-c", MAPS, str(source), str(tmp_path / "out.onnx")], check=True)


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    for output in (None, tmp_path / "out.onnx"):  # only what stays in memory needs such a folder, for the witness
        outcome = package.optimize(MODEL, output)
        assert outcome.verdict is not None
        assert outcome.verdict.status == "verified"
    assert bnfold("optimize", MODEL, tmp_path / "o.onnx", TMPDIR=str(tmp_path / "nowhere")).returncode == 0


def test_one_file_descriptor_too_few(tmp_path: Path) -> None:
    """From as many as the interpreter itself needs to as many as are enough."""
    source = tmp_path / "in.onnx"
    onnx.save(onnx.load(MODEL), source, save_as_external_data=True, location="in.data", size_threshold=0)
    codes = []
    for count in range(5, 30):
        output = tmp_path / "out" / "out.onnx"
        output.parent.mkdir(exist_ok=True)

        def limit(count: int = count) -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

        process = bnfold("optimize", source, output, "-q", "--no-verify", limit=limit)
        codes.append(process.returncode)
        if process.returncode == 0:
            assert read(output) == package.optimize(source, verify=QUICK).to_proto()
            break
        refused(process, "Too many open files")
        assert content(output.parent) == {}
    assert codes[-1] == 0
    assert len(codes) > 1


@pytest.mark.parametrize("how", ["path", "dots", "hard link", "link", "link to the folder"])
def test_the_output_is_the_input_by_another_name(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    source = folder / "in.onnx"
    source.write_bytes(MODEL.read_bytes())
    link = tmp_path / "link"
    output = {"path": source, "dots": folder / ".." / "folder" / "in.onnx", "link to the folder": link / "in.onnx"}.get(
        how, folder / "out.onnx"
    )
    if how == "hard link":
        output.hardlink_to(source)
    elif how == "link":
        output.symlink_to("in.onnx")
    elif how == "link to the folder":
        link.symlink_to(folder)
    refused(here("optimize", source, output), "OUT is the input file", "--in-place")
    assert source.read_bytes() == MODEL.read_bytes()
    assert here("optimize", source, output, "--in-place", "-q", "--no-verify").returncode == 0
    assert onnx.load(output) == package.optimize(MODEL, verify=QUICK).to_proto()
    assert onnx.load(source) == onnx.load(output)


def test_a_failed_result_goes_neither_over_the_input_nor_to_the_output(tmp_path: Path) -> None:
    source = tmp_path / "in.onnx"
    source.write_bytes(MODEL.read_bytes())
    output = tmp_path / "out.onnx"
    refused(here("optimize", source, output, "--keep-failed", source), "would overwrite the input")
    refused(here("optimize", source, output, "--keep-failed", output), "choose another name")
    assert content(tmp_path) == {"in.onnx": MODEL.read_bytes()}


def test_the_data_of_the_input_has_the_name_that_the_output_would_give(tmp_path: Path) -> None:
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.load(MODEL), source, save_as_external_data=True, location="out.onnx.data", size_threshold=0)
    before = content(tmp_path)
    for name in ("auto", "out.onnx.data", "in.onnx"):
        assert here("optimize", source, output, "-q", "--no-verify", "--external-data", name).returncode == 0
        assert before.items() <= content(tmp_path).items()
        assert read(output) == package.optimize(MODEL, verify=QUICK).to_proto()


def test_several_runs_on_one_output(tmp_path: Path) -> None:
    sources = {}
    for name in ("resnet_opset6", "dense"):
        sources[name] = package.optimize(MODELS / f"{name}.onnx", verify=QUICK).to_proto()
    output = tmp_path / "out.onnx"
    for _ in range(2):
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "bnfold", "optimize", str(MODELS / f"{name}.onnx"), str(output), "-q",
                 "--no-verify", "--external-data", "out.onnx.data"],
                stderr=subprocess.PIPE, text=True,
            )
            for name in [*sources, *sources]
        ]  # fmt: skip
        for process in processes:
            _, errors = process.communicate()
            assert process.returncode == 0, errors
        assert read(output) in sources.values()
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".bnfold")]


CHANNELS = 512


def sparse(folder: Path, megabytes: int) -> Path:
    """A chain of Conv and BatchNormalization whose weights are one file that takes no room on the disk."""
    size = CHANNELS * CHANNELS * 9 * 4
    count = -(-(megabytes << 20) // size)
    data = folder / "in.data"
    data.touch()
    os.truncate(data, count * size)
    helper = onnx.helper
    nodes, tensors, value = [], [], "x"
    for name, number in (("s", 1.5), ("b", 0.5), ("m", 0.25), ("v", 1.0)):
        tensors.append(helper.make_tensor(name, 1, [CHANNELS], [number] * CHANNELS))
    for index in range(count):
        tensor = onnx.TensorProto(
            name=f"w{index}", data_type=1, dims=[CHANNELS, CHANNELS, 3, 3], data_location=onnx.TensorProto.EXTERNAL
        )
        for key, content_ in (("location", data.name), ("offset", index * size), ("length", size)):
            tensor.external_data.add(key=key, value=str(content_))
        tensors.append(tensor)
        nodes.append(helper.make_node("Conv", [value, f"w{index}"], [f"c{index}"], pads=[1] * 4))
        nodes.append(helper.make_node("BatchNormalization", [f"c{index}", *"sbmv"], [f"y{index}"], name=f"n{index}"))
        value = f"y{index}"
    info = [helper.make_tensor_value_info(name, 1, ["N", CHANNELS, 8, 8]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    return folder / "in.onnx"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs sparse files and a limit that is kept")
@pytest.mark.parametrize(
    "megabytes",
    [
        450,
        pytest.param(
            4096,
            marks=[
                pytest.mark.skipif("CI" in os.environ, reason="writes 4 GB"),
            ],
        ),
    ],
)
def test_memory_does_not_grow_with_the_weights(tmp_path: Path, megabytes: int) -> None:
    """The address space is smaller than the weights, and the peak in memory far smaller still."""
    source = sparse(tmp_path, megabytes)
    limit = 400 << 20

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    output = tmp_path / "out.onnx"
    script = (
        "import sys\nfrom pathlib import Path\nfrom bnfold.cli.commands import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    status = Path('/proc/self/status').read_text()\n"  # getrusage would count the parent before exec, too
        "    print(status.split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "optimize", str(source), str(output), "-q", "--no-verify"]
    command += ["--disable", "dead-channels"]  # all weights are zero
    process = subprocess.run(
        command, capture_output=True, text=True, check=False, env=unmeasured(), preexec_fn=restrict
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stderr.split()[-1]) < 160 << 10
    assert (tmp_path / "out.onnx.data").stat().st_size >= megabytes << 20
    assert {node.op_type for node in onnx.load(output, load_external_data=False).graph.node} == {"Conv"}
