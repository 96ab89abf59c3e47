"""What shells complete, asked of the shells themselves, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS

ASKED = {
    "bnfold op": "optimize",
    "bnfold inspect a.onnx --assert-none BatchN": "BatchNormalization",
    "bnfold optimize a.onnx b.onnx --fi": "--fix-shapes",
    "bnfold optimize a.onnx b.onnx --decompose r": "remaining",
    "bnfold optimize a.onnx b.onnx --simplify onnxsc": "onnxscript",
    "bnfold upgrade a.onnx b.onnx --opset la": "latest",
    "bnfold optimize resn": "resnet_opset6.onnx",
    "bnfold resn": "resnet_opset6.onnx",
}
BASH = """
source <(bnfold completion bash)
COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$1"; COMP_POINT=${#1}
_bnfold_completion bnfold "${COMP_WORDS[$COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
compgen -f -- "${COMP_WORDS[$COMP_CWORD]}"
"""
FISH = "bnfold completion fish | source; complete -C $argv[1]"
ZSH = """
zmodload zsh/zpty
zpty z 'PS1="" zsh -f -i'
zpty -w z 'autoload -Uz compinit; compinit -u -D; source <(bnfold completion zsh); print REA\\DY'
zpty -r z out '*READY*'
zpty -w -n z "$1"$'\\t'
deadline=$((SECONDS + 20)); out=
while [[ $out != *$2* && $SECONDS -lt $deadline ]]; do
    zpty -rt z chunk && out+=$chunk || sleep 0.1
done
print -r -- "${(V)out}"
"""


@pytest.mark.parametrize("line", ASKED)
@pytest.mark.parametrize(
    ("shell", "code"), [("bash", ["-c", BASH, "-"]), ("fish", ["-c", FISH]), ("zsh", ["-c", ZSH, "-"])]
)
def test_a_shell_completes(shell: str, code: list[str], line: str) -> None:
    program = shutil.which(shell)
    if program is None or sys.platform == "win32":
        pytest.skip(f"no {shell}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, *code, line, ASKED[line]],
        check=False,
        capture_output=True,
        text=True,
        cwd=MODELS,
        env={**os.environ, "PATH": path, "TERM": "dumb"},
        timeout=120,
    )
    assert ASKED[line] in done.stdout, (done.stdout, done.stderr)
