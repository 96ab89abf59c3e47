"""The attacks of the public records on onnx's external data, its checker, converter and downloads, tried on bnfold.

Each test rebuilds what its record describes. The rule behind all of them: bnfold reads and writes in the folder of the
model it was given and nowhere else, and believes no length, name or key that a file states.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import bnfold
from bnfold import ir
from bnfold.errors import BnfoldError, ExternalDataError, MalformedModel
from bnfold.ir.storage.external import ExternalFiles
from bnfold.ir.storage.source import FileSource
from bnfold.settings import VerifyOptions
from tests.conftest import ROOT
from tests.ir.build import info, model

SECRET = np.arange(24, dtype=np.float32)
QUICK = VerifyOptions(depth="none")


def refers(path: Path, location: str, *entries: tuple[str, str]) -> Path:
    """A model at ``path`` whose weight says that its bytes lie at ``location``."""
    tensor = TensorProto(name="w", data_type=1, dims=[24], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), *entries):
        tensor.external_data.add(key=key, value=value)
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor]).SerializeToString())
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside the folder of the model."""
    path = tmp_path / "secret"
    path.write_bytes(SECRET.tobytes())
    return path


def refused(path: Path, *words: str) -> None:
    """Neither loading nor the command's work reads it, and nothing is written."""
    before = {file: file.read_bytes() for file in path.parent.parent.rglob("*") if file.is_file()}
    for attempt in (ir.load, bnfold.inspect, lambda one: bnfold.optimize(one, path.with_name("out.onnx"))):
        with pytest.raises(ExternalDataError) as caught:
            attempt(path)
        assert any(word in str(caught.value) for word in words)
    assert {file: file.read_bytes() for file in path.parent.parent.rglob("*") if file.is_file()} == before


OUTSIDE = "outside the model's directory"


@pytest.mark.parametrize("location", ["../secret", "../../../../../../etc/passwd", "./../secret", "/etc/passwd"])
def test_cve_2022_25882_external_data_outside_the_folder(tmp_path: Path, secret: Path, location: str) -> None:
    """Directory traversal by ``external_data``: https://nvd.nist.gov/vuln/detail/CVE-2022-25882 (PYSEC-2023-38)."""
    assert secret.exists()
    refused(refers(tmp_path / "m" / "model.onnx", location), OUTSIDE)


@pytest.mark.parametrize(
    "location", ["sub/../../secret", "a/b/../../../secret", "sub/./../../m/../secret", "a//../..//secret"]
)
def test_cve_2024_27318_a_way_out_that_does_not_start_with_dots(tmp_path: Path, secret: Path, location: str) -> None:
    """The bypass of the first fix: https://github.com/advisories/GHSA-whh8-fjgc-qp73."""
    assert secret.exists()
    for folder in ("sub", "a/b"):
        (tmp_path / "m" / folder).mkdir(parents=True)
    refused(refers(tmp_path / "m" / "model.onnx", location), OUTSIDE)


def test_cve_2024_27319_long_texts_in_errors(tmp_path: Path) -> None:
    """An out-of-bounds read where onnx composed messages: https://github.com/advisories/GHSA-h8wv-9h96-m4hr.

    Names of every length around the size of such a buffer, in a model that the checker complains of.
    """
    for length in (1, 255, 1023, 2047, 2048, 2049, 4096, 70_000):
        name = "n" * length
        nodes = [helper.make_node("X" * length, [name], ["y"], name=name), helper.make_node("Relu", ["gone"], ["z"])]
        path = tmp_path / "model.onnx"
        path.write_bytes(model(nodes, inputs=[name]).SerializeToString())
        try:
            bnfold.optimize(path, tmp_path / "out.onnx", verify=QUICK)
        except BnfoldError as error:
            assert "\n" not in str(error)  # noqa: PT017 - a model with a value that nothing makes may be refused


def evil_archive(member: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        content = tarfile.TarInfo(member)
        content.size = 5
        archive.addfile(content, io.BytesIO(b"pwned"))
    return out.getvalue()


@pytest.mark.parametrize("member", ["../pwned", "/tmp/pwned", "model_evil/../../pwned"])
def test_cve_2024_5187_and_2024_7776_archives_are_not_unpacked(tmp_path: Path, member: str) -> None:
    """Files overwritten by a downloaded archive. bnfold downloads and unpacks nothing; an archive is no model.

    https://github.com/advisories/GHSA-6rq9-53c3-f7vj and https://nvd.nist.gov/vuln/detail/CVE-2024-7776.
    """
    path = tmp_path / "m" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(evil_archive(member))
    for source in (path, path.read_bytes()):
        with pytest.raises(MalformedModel):
            bnfold.optimize(source, tmp_path / "m" / "out.onnx")
    assert [file.name for file in tmp_path.rglob("*")] == ["m", "model.onnx"]


def test_cve_2026_28500_nothing_is_fetched_from_a_hub() -> None:
    """``onnx.hub.load(silent=True)`` asked nobody: https://github.com/onnx/onnx/security/advisories/GHSA-hqmj-h5c6-369m.

    No module of the package imports what could fetch or unpack anything; urllib.parse only edits text.
    """
    forbidden = {"urllib", "http", "socket", "requests", "tarfile", "ftplib", "pickle", "marshal"}
    for path in (ROOT / "bnfold").rglob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{alias.name}" for alias in node.names if node.module != "urllib.parse"}
        assert not {name for name in imported if name.split(".")[0] in forbidden or name.startswith("onnx.hub")}, path


@pytest.mark.parametrize("external", ["auto", "keep", "none", "w.bin"])
def test_cve_2025_51480_saving_does_not_follow_the_location(tmp_path: Path, external: str) -> None:
    """``save_external_data`` wrote where the model said: https://nvd.nist.gov/vuln/detail/CVE-2025-51480.

    bnfold does not even load such a model; the name of what it writes never comes from one. A tensor whose bytes are
    inside may still carry a location, which means nothing and is not followed.
    """
    folder, victim = tmp_path / "m", tmp_path / "victim"
    folder.mkdir()
    victim.write_bytes(b"precious")
    refused(refers(folder / "model.onnx", "../victim"), OUTSIDE)
    tensor = numpy_helper.from_array(np.ones(4096, np.float32), "w")
    for key, value in (("location", "../victim"), ("basepath", str(tmp_path)), ("offset", "0"), ("length", "16384")):
        tensor.external_data.add(key=key, value=value)
    source = model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor])
    ir.save(ir.load(source), folder / "out.onnx", external_data=external)
    assert victim.read_bytes() == b"precious"
    assert {path.name for path in tmp_path.iterdir()} == {"m", "victim"}


def test_cve_2025_51480_a_link_by_the_name_of_the_data_file_is_not_written_through(tmp_path: Path) -> None:
    """The same through a link that waits where the data would go (https://github.com/onnx/onnx/pull/7686)."""
    folder, victim = tmp_path / "m", tmp_path / "victim"
    folder.mkdir()
    for content in (b"precious", b""):
        victim.write_bytes(content)
        for make in (Path.symlink_to, Path.hardlink_to):
            make(folder / "w.bin", victim)
            source = model([helper.make_node("Add", ["x", "w"], ["y"])], [numpy_helper.from_array(SECRET, "w")])
            ir.save(ir.load(source), folder / "out.onnx", external_data="w.bin", size_threshold=1)
            assert victim.read_bytes() == content
            (folder / "w.bin").unlink()
    dangling = tmp_path / "not there"
    (folder / "w.bin").symlink_to(dangling)
    ir.save(ir.load(source), folder / "out.onnx", external_data="w.bin", size_threshold=1)
    assert not dangling.exists()


@pytest.mark.parametrize(
    "key", ["__class__", "__dict__", "length", "offset", "checksum", "basepath", "location", "_sources", "x" * 1000]
)
@pytest.mark.parametrize("value", ["", "-1", "99999999999999999999", "1e9", "../secret", "\0", "__init__"])
def test_cve_2026_34445_keys_are_not_attributes(tmp_path: Path, key: str, value: str) -> None:
    """``setattr`` for every key of a file, a length of petabytes. Here only three keys mean anything.

    https://github.com/onnx/onnx/security/advisories/GHSA-538c-55jv-c5g9.
    """
    path = refers(tmp_path / "model.onnx", "w.bin", (key, value))
    (tmp_path / "w.bin").write_bytes(SECRET.tobytes())
    try:
        tensor = ir.load(path).graph.values["w"].tensor
    except (ExternalDataError, MalformedModel) as error:
        assert key in ("length", "offset", "location")
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert tensor is not None
        np.testing.assert_array_equal(tensor.numpy(), SECRET)


def test_cve_2026_27489_a_folder_that_is_a_link(tmp_path: Path, secret: Path) -> None:
    """A link in the middle of the location: https://github.com/onnx/onnx/security/advisories/GHSA-3r9x-f23j-gc73."""
    path = refers(tmp_path / "m" / "model.onnx", "sub/secret")
    (path.parent / "sub").symlink_to(secret.parent)
    refused(path, OUTSIDE)


def test_cve_2026_27489_from_the_folder_one_is_in(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fix did nothing where the folder was the empty path: a model named without one."""
    path = refers(tmp_path / "m" / "model.onnx", "root" + str(secret))
    (path.parent / "root").symlink_to("/")
    monkeypatch.chdir(path.parent)
    for name in ("model.onnx", "./model.onnx"):
        with pytest.raises(ExternalDataError, match="outside"):
            ir.load(name)
    for base in ("", "."):
        with pytest.raises(ExternalDataError, match="outside"):
            ir.load(path.read_bytes(), base_dir=base)


def test_cve_2026_34447_a_file_that_is_a_link(tmp_path: Path, secret: Path) -> None:
    """The data itself is a link to elsewhere: https://github.com/onnx/onnx/security/advisories/GHSA-p433-9wv8-28xj."""
    path = refers(tmp_path / "m" / "model.onnx", "w.bin")
    (path.parent / "w.bin").symlink_to(secret)
    refused(path, OUTSIDE)


def test_cve_2026_34446_a_hard_link(tmp_path: Path, secret: Path) -> None:
    """A second name of a file elsewhere: https://github.com/onnx/onnx/security/advisories/GHSA-cmw6-hcpp-c6jp."""
    path = refers(tmp_path / "m" / "model.onnx", "w.bin")
    (path.parent / "w.bin").hardlink_to(secret)
    refused(path, "hard link")
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").write_bytes(secret.read_bytes())
    tensor = ir.load(path).graph.values["w"].tensor
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), SECRET)


@pytest.mark.parametrize(("restored", "complaint"), [(False, OUTSIDE), (True, "exchanged")])
def test_a_file_exchanged_between_the_look_and_the_opening(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch, restored: bool, complaint: str
) -> None:
    """The race of https://github.com/onnx/onnx/pull/7790: the location becomes a link just then, and is made good."""
    path = refers(tmp_path / "m" / "model.onnx", "w.bin")
    data = path.parent / "w.bin"
    data.write_bytes(bytes(96))
    place, opened = data.resolve(), FileSource.__init__

    def race(self: FileSource, target: Path, **options: Any) -> None:
        if target != place:
            opened(self, target, **options)
            return
        data.unlink()
        data.symlink_to(secret)
        opened(self, target, **options)
        if restored:
            data.unlink()
            data.write_bytes(bytes(96))

    monkeypatch.setattr(FileSource, "__init__", race)
    with pytest.raises(ExternalDataError, match=complaint):
        ir.load(path)


def test_data_reopened_later_must_be_the_same_file(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are too many data files to hold them all open."""
    path = refers(tmp_path / "m" / "model.onnx", "w.bin")
    data = path.parent / "w.bin"
    data.write_bytes(bytes(96))
    monkeypatch.setattr("bnfold.ir.storage.external.MAX_HELD", 0)
    files = ExternalFiles([path.parent])
    tensor = files.stored(onnx.load(path, load_external_data=False).graph.initializer[0])
    assert tensor.span.source.fileno() is None
    data.unlink()
    data.symlink_to(secret)
    with pytest.raises(BnfoldError, match="changed"):
        tensor.numpy()


CONVERTED = [
    ("CVE-2026-44512", 6, helper.make_node("Upsample", [], ["y"], width_scale=2.0, height_scale=2.0)),
    ("Cast, in the same record", 8, helper.make_node("Cast", [], ["y"], to=1)),
    ("Gemm of rank 1", 7, helper.make_node("Gemm", ["x", "x", "x"], ["y"])),
    ("Slice, attributes of wrong kinds", 9, helper.make_node("Slice", ["x"], ["y"], starts=1.5, ends="z", axes=3)),
]


@pytest.mark.parametrize(("record", "opset", "node"), CONVERTED, ids=[row[0] for row in CONVERTED])
@pytest.mark.parametrize("target", [None, 6, 21])
def test_cve_2026_44512_adapters_that_trust_the_number_of_inputs(
    record: str, opset: int, node: onnx.NodeProto, target: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version converter that reads inputs which are not there. bnfold's adapters are its own; onnx's is not called.

    https://github.com/advisories/GHSA-hwpq-hmq9-wj77 and https://osv.dev/vulnerability/DHI-e5ui-nuzp-ftjo-em2r.
    """
    assert record
    monkeypatch.setitem(sys.modules, "onnx.version_converter", None)
    path_like = model([node], opset=opset, ir_version=4)
    for checks in (QUICK, VerifyOptions(runtime="none")):
        try:
            bnfold.optimize(path_like, options=bnfold.Options(target_opset=target), verify=checks)
        except BnfoldError as error:
            assert "\n" not in str(error)  # noqa: PT017 - it need not be refused


@pytest.mark.parametrize("dims", [[1 << 31, 1 << 31], [1 << 62, 8], [4, -1], [1 << 40], [1] * 100])
def test_sizes_that_the_checker_lets_pass(tmp_path: Path, dims: list[int]) -> None:
    """Products that overflow, negative dims, more dims than an array has: all content to onnx 1.21's checker.

    Reported without a CVE: https://huggingface.co/Zhuxs/onnx-checker-overflow-poc.
    """
    tensor = TensorProto(name="w", data_type=1, dims=dims, raw_data=bytes(4 if dims[0] == 1 else 16))
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, [tensor]).SerializeToString())
    with pytest.raises(MalformedModel, match="dims"):
        bnfold.optimize(path, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def calling(names: list[str], times: int) -> list[onnx.FunctionProto]:
    """Functions that call the next one so many times, the last one Relu."""
    functions = []
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("d", 1)]
    for name, callee in zip(names, [*names[1:], "Relu"], strict=True):
        values = ["x", *(f"t{index}" for index in range(times - 1)), "y"]
        domain = "" if callee == "Relu" else "d"
        nodes = [
            helper.make_node(callee, values[i : i + 1], values[i + 1 : i + 2], domain=domain) for i in range(times)
        ]
        functions.append(helper.make_function("d", name, ["x"], ["y"], nodes, imports))
    return functions


@pytest.mark.parametrize(
    ("names", "times"),
    [
        pytest.param(["A", "A"], 1, id="recursive"),
        pytest.param(["A", "B", "A"], 1, id="mutually recursive"),
        pytest.param([f"F{i}" for i in range(1500)], 1, id="1,500 deep", marks=pytest.mark.large),
        pytest.param([f"F{i}" for i in range(40)], 2, id="2⁴⁰ calls"),
    ],
)
def test_functions_that_call_without_end(names: list[str], times: int, tmp_path: Path) -> None:
    """Shape inference and inliner of onnx overflow the stack or never come back.

    Reported without a CVE: https://huggingface.co/Yash1106/onnx-inliner-mutual-recursion-dos and others.
    """
    functions = {function.name: function for function in reversed(calling(names, times))}
    dims = [2, 3, 4]
    parameters = [numpy_helper.from_array(np.full(3, 1.5, np.float32), name) for name in "sbmv"]
    nodes = [
        helper.make_node("A" if "A" in functions else "F0", ["x"], ["t"], domain="d"),
        helper.make_node("BatchNormalization", ["t", *"sbmv"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", *dims)], [info("y", *dims)], parameters)
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("d", 1)]
    source = helper.make_model(graph, opset_imports=imports, ir_version=8)
    source.functions.extend(functions.values())
    if len(set(names)) < len(names):
        with pytest.raises(MalformedModel, match="calls itself"):
            bnfold.optimize(source, tmp_path / "out.onnx", verify=QUICK)
        return
    outcome = bnfold.optimize(source, tmp_path / "out.onnx", verify=QUICK)
    assert [event.verdict for event in outcome.report.batchnorms] == ["kept"]
    if times == 1 and len(names) > 100:
        verified = bnfold.optimize(source, verify=VerifyOptions(runtime="none"))
        assert verified.verdict is not None
        assert verified.verdict.status != "failed"


def test_nothing_of_the_package_is_left_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saving to a stream wrote data files beside whoever called (onnx 1.22, reported without a CVE)."""
    monkeypatch.chdir(tmp_path)
    tensor = numpy_helper.from_array(np.ones(4096, np.float32), ".env")
    source = model([helper.make_node("Add", ["x", ".env"], ["y"])], [tensor])
    bnfold.optimize(source, verify=VerifyOptions(runtime="none")).to_proto()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names alone
