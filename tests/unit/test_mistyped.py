"""A mistyped word is named, and answered by the nearest one that there is."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tileiras import cli

KERNEL = "cuda_tile.module @m { entry @k() { return } }"
MISTYPED = {
    "--gpu-nam=sm_90": ("tileiras k.tileir --gpu-nam=sm_90", "Did you mean '--gpu-name'?"),
    "ptxx": ("tileiras k.tileir --gpu-name=sm_90 --emit=ptxx", "tileiras: it takes cubin, ptx, tilebc"),
    "--pas": ("opt k.tileir --pas=X", "did you mean '--pass'?"),
    "TileAACutLongChain": (
        "opt k.tileir --gpu-name sm_90 --skip TileAACutLongChain --pipeline-to tileaa",
        "did you mean 'TileAACutLongChains'?",
    ),
    "--targte": ("run k.tileir --targte cpu", "did you mean '--target'?"),
    "sm_9O": ("build compile k.tileir --arch sm_9O --ptx o", "did you mean sm_90?"),
    "--prefx": ("build header --prefx a", "did you mean '--prefix'?"),
    "--cmakedir": ("config --cmakedir", "did you mean '--cmake-dir'?"),
    "--jsn": ("report diff a b --jsn", "did you mean '--json'?"),
    "--timout": ("reduce k.tileir --timout=3 -- false {}", "did you mean '--timeout'?"),
}


@pytest.mark.parametrize("word", MISTYPED)
def test_a_mistyped_word_is_answered_by_the_nearest(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.tileir").write_text(KERNEL)
    line, answer = MISTYPED[word]
    name, *words = line.split()
    main = cli.main if name == "tileiras" else importlib.import_module(f"tileiras.tools.{name}").main
    try:
        code = main(words)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr().err
    assert code in (1, 2) and word in said and answer in said, (code, said)
