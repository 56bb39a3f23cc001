"""share/: what the shells complete and the manual says is what the commands take."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contract.kit import REPOSITORY

sys.path.append(str(REPOSITORY / "scripts"))
import shell_pages

SHARE = REPOSITORY / "share"
COMMANDS = re.findall(r'^      "(tile[\w-]+)\|', (REPOSITORY / "CMakeLists.txt").read_text(), re.MULTILINE)


def test_share_is_what_the_tables_say() -> None:
    pages = shell_pages.pages()
    there = {path.relative_to(SHARE).as_posix() for path in SHARE.rglob("*") if path.is_file()}
    assert there == set(pages)
    stale = [name for name, text in pages.items() if (SHARE / name).read_text(encoding="utf-8") != text]
    assert not stale, "run scripts/shell_pages.py"


def test_every_command_has_its_pages() -> None:
    assert len(COMMANDS) >= 10 and sorted(COMMANDS) == sorted(c.name for c in shell_pages.commands())
    for command in shell_pages.commands():
        rows = [*command.options, *(row for _, options in command.verbs.values() for row in options)]
        assert rows and all(name.startswith("-") for row in rows for name in row.names)
        assert (
            command.name == "tileiras-nvcc"
            or "--help" in {name for row in rows for name in row.names}
            or (command.name == "tileiras-config")
        )


def completed(folder: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    script = (
        f'source "{SHARE}/bash-completion/completions/{words[0]}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        f"_{words[0].replace('-', '_')}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path: Path) -> None:
    assert completed(tmp_path, "tileiras", "--em") == {"--emit"}
    assert completed(tmp_path, "tileiras", "--emit", "p") == {"ptx"}
    assert completed(tmp_path, "tileiras", "--emit", "=", "") >= {
        "ptx",
        "cubin",
    }  # --emit= is two words to bash
    assert completed(tmp_path, "tileiras", "--gpu-name", "=", "sm_9") == {"sm_90"}
    assert completed(tmp_path, "tileiras", "-o", "") == set()  # files, by default
    assert completed(tmp_path, "tileiras-build", "ke") == {"kernels"}
    assert completed(tmp_path, "tileiras-build", "kernels", "--stam") == {"--stamp"}
    assert completed(tmp_path, "tileiras-build", "json", "--stam") == set()
    assert completed(tmp_path, "tileiras-build", "test", "--target", "r") == {"reference"}
    assert completed(tmp_path, "tileiras-run", "--target", "e") == {"emulator"}
    assert completed(tmp_path, "tileiras-translate", "--to", "") == {"text", "bytecode"}
    assert completed(tmp_path, "tileiras-config", "--cache-") == {"--cache-stats", "--cache-clear"}

    assert completed(tmp_path, "tileiras", "--color", "=", "a") == {"auto", "always"}
    assert completed(tmp_path, "tileiras-build", "json", "--color", "=", "n") == {"never"}
    assert completed(tmp_path, "tileiras", "--color", "a") == set(), "a value stands behind ="
    assert {"-O0", "-O3"} < completed(tmp_path, "tileiras", "-O")


# What is typed, and what a shell makes of it where one answer is left.
TYPED = {
    "tileiras --em": "tileiras --emit",
    "tileiras --emit=p": "tileiras --emit=ptx",
    "tileiras --color=al": "tileiras --color=always",
    "tileiras --color al": "tileiras --color al",
    "tileiras -o b.ti": "tileiras -o b.tileir",
    "tileiras-build ke": "tileiras-build kernels",
    "tileiras-build kernels --stam": "tileiras-build kernels --stamp",
    "tileiras-build json --stam": "tileiras-build json --stam",
    "tileiras-build json --color=ne": "tileiras-build json --color=never",
    "tileiras-run --target e": "tileiras-run --target emulator",
    "tileiras-config --cache-s": "tileiras-config --cache-stats",
    "tileiras-nvcc --tileiras-comp": "tileiras-nvcc --tileiras-compiler",
}


def typed_to_zsh(path: str, folder: Path, line: str) -> str:
    """The line that an interactive zsh has after the tab key."""
    import pty

    said = folder / "said"
    start = (
        f"fpath=('{SHARE}/zsh/site-functions' $fpath); autoload -U compinit; compinit -u -D; setopt no_beep; "
        f'report() {{ print -r -- "$BUFFER" > "{said}"; exit }}; zle -N report; '
        "bindkey '^I' complete-word; bindkey '^X' report; PROMPT=; unset zle_bracketed_paste\n"
    )
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(
        [path, "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder
    ) as zsh:
        os.close(theirs)
        os.write(ours, start.encode())
        os.write(ours, line.encode() + b"\t\x18")
        try:
            while os.read(ours, 4096):
                pass
        except OSError:  # how a terminal ends
            pass
        assert zsh.wait() == 0
    os.close(ours)
    return said.read_text().rstrip(" \n").removesuffix("=")


def typed_to_fish(path: str, folder: Path, line: str) -> str:
    files = f"{SHARE}/fish/vendor_completions.d"
    script = f"for f in '{files}'/*.fish; source $f; end; complete -C $argv[1]"
    done = subprocess.run([path, "-c", script, line], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == ""
    found = {row.split("\t")[0] for row in done.stdout.splitlines()}
    return line.rpartition(" ")[0] + " " + found.pop() if len(found) == 1 else line


@pytest.mark.parametrize("shell", [typed_to_zsh, typed_to_fish])
def test_a_shell_completes_what_is_typed(shell: Callable[[str, Path, str], str], tmp_path: Path) -> None:
    name = shell.__name__.rpartition("_")[2]
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name}")
    (tmp_path / "b.tileir").touch()
    assert {line: shell(path, tmp_path, line) for line in TYPED} == TYPED


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_read_the_files(shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"no {shell}")
    for file in (SHARE / next(p.name for p in SHARE.iterdir() if p.name.startswith(shell))).rglob("*tile*"):
        assert subprocess.run([path, "-n", file], capture_output=True, text=True).stderr == ""


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_manual_pages_are_roff_without_complaints() -> None:
    for file in (SHARE / "man" / "man1").iterdir():
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", file], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "", file
    assert "fatbinary" in (SHARE / "man" / "man1" / "tileiras-build.1").read_text()
