"""The plan for a line with Tile inputs: steps, names, what nvcc gets, what is refused. Nothing runs here."""

from __future__ import annotations

import pytest
from build_support import map_checkout

map_checkout()
from tileiras.nvcc_shim import argv, home, plan  # noqa: E402

ARCHS = [75, 80, 90, 100, 120]


def make(
    words: list[str], compiler: str = "builtin", text: tuple[str, ...] = (), **environ: str
) -> plan.Plan:
    line = argv.parse_line(words, environ)
    for item in line.inputs():
        item.is_tile = item.values[0].endswith(argv.TILE_SUFFIXES)
    tools = plan.Tools(["build"], "/nvcc", "gcc", compiler, ARCHS, list)
    return plan.plan_line(line, tools, "/t", "/cwd", environ, lambda path: path in text)


def commands(words: list[str], **keywords: object) -> list[str]:
    return [" ".join(step.argv) for job in make(words, **keywords).jobs for step in job.steps]  # type: ignore[arg-type]


def outputs(words: list[str]) -> list[str | None]:
    return [job.output for job in make(words).jobs]


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["-c"], "k.o"), (["-dc"], "k.o"), (["-dw"], "k.o"), (["-cubin"], "k.cubin"), (["-tilecubin"], "k.tile.cubin"),
        (["-fatbin"], "k.fatbin"), (["-tilefatbin"], "k.tile.fatbin"), (["-tilebc"], "k.tilebc"), (["-ptx"], "k.ptx"),
        (["-c", "-odir", "d"], "d/k.o"), (["-c", "-odir", "d", "-o", "x.o"], "x.o"), (["-c", "-o", "x y#$é.o"], "x y#$é.o"),
        (["-c", "-cubin"], "k.cubin"), (["-cubin", "-ptx"], "k.ptx"), (["-ptx", "-cubin"], "k.ptx"), (["-lib", "-c"], "k.o"),
    ],
)  # fmt: skip
def test_names_and_the_phase_that_wins(words: list[str], output: str) -> None:
    assert outputs([*words, "dir.v/k.tileir", "-arch=sm_90"]) == [output]


def test_an_object_is_compiled_bundled_generated_and_compiled() -> None:
    steps = commands(["-c", "k.tileir", "-gencode", "arch=compute_90,code=[sm_90a,compute_90]"])
    assert [step.split()[:2] for step in steps] == [["build", "compile"]] * 2 + [["build", "fatbin"], ["build", "header"],
                                                                                ["gcc", "-c"]]  # fmt: skip
    assert steps[0].endswith(
        "-o /t/k.compute_90.ptx --arch compute_90 --kernels-json /t/k.compute_90.kernels.json"
    )
    assert "--arch sm_90a " in steps[1]

    assert steps[2] == "build fatbin -o /t/k.fatbin".replace("k.fatbin", "k.tile.fatbin") + (
        " --ptx compute_90=/t/k.compute_90.ptx --elf sm_90a=/t/k.sm_90a.tile.cubin")  # fmt: skip
    assert steps[4].split()[-3:] == ["/t/k_tile.cpp", "-o", "k.o"]


def test_the_portable_entry_is_tile_ir_only_with_the_tile_launch_abi() -> None:
    words = ["-fatbin", "k.tileir", "-arch=sm_90"]
    assert "--ptx compute_90=" in commands(words)[-1]
    for more, compiler in (([], "nvidia"), (["--tileiras-launch-abi", "tile"], "builtin")):
        last = commands([*words, *more], compiler=compiler)[-1]
        assert "--tileir compute_90=k.tileir" in last and "--ptx" not in last
    # Text has to become bytecode first.
    steps = commands(words, compiler="nvidia", text=("k.tileir",))
    assert steps[0] == "build bytecode k.tileir -o /t/k.tilebc"
    assert "--tileir compute_90=/t/k.tilebc" in steps[-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-G"], "--debug --opt-level 0 --lineinfo"),
        (["-G", "-dopt=on"], "--lineinfo"),
        (["-lineinfo"], "--lineinfo"),
        (["-fdevice-sanitize", "memcheck"], "--sanitize memcheck"),
        (
            ["-Xtileiras", "-O1,--lineinfo", "--tileiras-options=-w"],
            "--option=-O1 --option=--lineinfo --option=-w",
        ),
        (["-w"], "--option=-w"),
        (["-Werror", "all-warnings"], "--option=--Werror"),
        (["-Xptxas", "-v,-O1"], "--ptxas-option=-O1"),
        (["-maxrregcount=64"], "--ptxas-option=--maxrregcount=64"),
        (["-e", "a,b"], "--entry a --entry b"),
    ],
)
def test_options_for_the_tile_compiler(words: list[str], expected: str) -> None:
    (step,) = commands(["-cubin", "k.tileir", "-arch=sm_90", *words])
    start = "build compile --compiler builtin "
    assert step.startswith(start)
    assert step[len(start) :].replace("--launch-abi simt ", "").split(" k.tileir ")[0].strip() == expected


@pytest.mark.parametrize(
    "flag", ["-O0", "-O 3", "-Ofc=max", "-g", "-use_fast_math", "-rdc=true", "-DX", "-Iinc", "-std=c++20"]
)
def test_what_says_nothing_about_tile_ir_changes_nothing(flag: str) -> None:
    line = ["-cubin", "k.tileir", "-arch=sm_90"]
    assert commands([*line, *flag.split()]) == commands(line)


def test_nvidias_compiler_cannot_honour_ptxas_options_and_it_is_said() -> None:
    done = make(["-cubin", "k.tileir", "-arch=sm_90", "-Xptxas", "-v", "-maxrregcount=64"], compiler="nvidia")
    assert [text.split("'")[1] for text in done.warnings] == [
        "--ptxas-options (-Xptxas)",
        "--maxrregcount (-maxrregcount)",
    ]
    assert "--ptxas-option" not in " ".join(done.jobs[0].steps[0].argv)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-c", "-Wall"], "Unknown option '-Wall'"),
        (["-c", "-Xptaxs", "-v"], "Unknown option '-Xptaxs'; did you mean '-Xptxas'?"),
        (["-c", "--lineinof"], "Unknown option '--lineinof'; did you mean '-lineinfo'?"),
        (["-c", "-maxregcount=48"], "Unknown option '-maxregcount=48'; did you mean '-maxrregcount'?"),
        (["-c", "-gencod", "arch=compute_90,code=sm_90"], "Unknown option '-gencod'; did you mean '-gencode'?"),
        (["-c", "--tileiras-hedaer=x.h"], "Unknown option '--tileiras-hedaer=x.h'; did you mean '--tileiras-header'?"),
        (["-E"], "Option '--preprocess (-E)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-ltoir"], "Option '--ltoir (-ltoir)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-optix-ir"], "Option '--optix-ir (-optix-ir)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-cuda"], "Option '--cuda (-cuda)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-c", "-dlto"], "Option '--dlink-time-opt (-dlto)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-c", "-simt-only"], "Option '--simt-only (-simt-only)' is not allowed when compiling Tile IR input 'k.tileir'"),
        (["-c", "l.tileir", "-o", "x"],
         "A single input file is required for a non-link phase when an outputfile is specified"),
        (["-c", "a.cu", "-o", "x"], "A single input file is required for a non-link phase when an outputfile is specified"),
        (["-c", "-MF", "x"],
         "Option '--dependency-file' requires one of '-M', '-MM', '-MD' or '-MMD' to be specified"),
        (["-cubin", "-arch=all"],
         "Option '--cubin (-cubin)' is not allowed when compiling for multiple GPU architectures"),
        (["-cubin", "-arch=compute_90"],
         "Option '--cubin (-cubin)' is not allowed when compiling for a virtual compute architecture"),
        (["-c", "-t", "x"], "'x': expected a number"),
        (["-c", "-fdevice-sanitize", "foo"], "Argument for --fdevice-sanitize (-fdevice-sanitize) can only be 'memcheck'"),
        (["-tilebc", "-o", "./k.tileir"], "The output file './k.tileir' is also an input file"),
        (["-c", "d/k.tileir"], "Two input files would be compiled to 'k.o'"),
    ],
)  # fmt: skip
def test_refusals(words: list[str], message: str) -> None:
    arch = [] if any(word.startswith("-arch") for word in words) else ["-arch=sm_90"]
    with pytest.raises(argv.Usage) as caught:
        make([*words[:1], "k.tileir", *words[1:], *arch])
    assert str(caught.value) == message


def test_cmakes_spelling_of_one_real_architecture_gives_a_cubin() -> None:
    # nvcc 13.4 answers this with exit code 0 and no file.
    (step,) = commands(["-cubin", "--generate-code=arch=compute_100,code=[compute_100,sm_100]", "k.tileir"])
    assert step.endswith("-o k.cubin --arch sm_100")


def test_mixed_link_puts_the_object_where_the_input_was() -> None:
    done = make(["-arch=sm_90", "-o", "p", "a.cu", "dir/k.tileir", "-lfoo", "-Xlinker", "-z,now", "b.o"])
    assert done.rest == [
        "-arch=sm_90",
        "-o",
        "p",
        "a.cu",
        "/t/k.tile.o",
        "-lfoo",
        "-Xlinker",
        "-z,now",
        "b.o",
    ]
    assert done.linked == "p"


def test_ours_never_reach_nvcc() -> None:
    done = make(
        [
            "--tileiras-prefix",
            "p",
            "--tileiras-header=h.h",
            "-MD",
            "-MQ",
            "a b",
            "k.tileir",
            "m.cu",
            "-arch=sm_90",
        ]
    )
    assert done.rest == ["-MD", "-MT", "a\\ b", "/t/k.tile.o", "m.cu", "-arch=sm_90"]
    header = next(step.argv for step in done.jobs[0].steps if "header" in step.argv)
    assert header[header.index("--prefix") + 1] == "p" and header[header.index("--header-out") + 1] == "h.h"


def test_x_cu_must_not_turn_objects_into_sources() -> None:
    assert make(["-x", "cu", "k.tileir", "m.cu", "-arch=sm_90"]).rest == [
        "/t/k.tile.o",
        "m.cu",
        "-arch=sm_90",
    ]
    done = make(["-x", "cu", "k.tileir", "m.cpp", "-arch=sm_90"])
    assert done.rest == ["-x", "cu", "-Xlinker", "/t/k.tile.o", "m.cpp", "-arch=sm_90"]


def test_device_link_takes_nothing_from_tile_ir() -> None:
    assert make(["-dlink", "a.o", "k.tileir", "-o", "d.o", "-arch=sm_90"]).rest == [
        "-dlink",
        "a.o",
        "-o",
        "d.o",
        "-arch=sm_90",
    ]
    with pytest.raises(argv.Usage, match="No input files specified"):
        make(["-dlink", "k.tileir"])


def test_host_options_reach_the_host_compiler_and_only_it() -> None:
    words = [
        "-c",
        "k.tileir",
        "-arch=sm_90",
        "-Xcompiler=-fPIC,-Wall",
        "-g",
        "-forward-unknown-to-host-compiler",
        "-fopenmp",
    ]
    host = make([*words, "-ccbin", "/opt/g++"]).jobs[0].steps[-1].argv
    assert host[0] == "/opt/g++"
    # Ours comes first: the object may go into a shared library, unless the user says otherwise.
    assert [word for word in host if word in ("-fPIC", "-Wall", "-g", "-fopenmp")] == [
        "-fPIC",
        "-fPIC",
        "-Wall",
        "-g",
        "-fopenmp",
    ]
    assert (
        make(["-c", "k.tileir", "-arch=sm_90"], NVCC_CCBIN="/opt/cc").jobs[0].steps[-1].argv[0] == "/opt/cc"
    )


@pytest.mark.parametrize(
    ("words", "path", "target"),
    [
        (["-c", "-MD"], "k.d", "k.o"),
        (["-cubin", "-MD"], "k.d", "k.cubin"),  # nvcc says k.o
        (["-c", "-MMD", "-o", "o/x.obj"], "o/x.d", "o/x.obj"),
        (["-c", "-MD", "-odir", "d"], "d/k.d", "d/k.o"),
        (["-c", "-MD", "-MF", "f.d"], "f.d", "k.o"),
        (["-c", "-MD", "-o", "a b#$.o"], "a b#$.d", "a\\ b\\#$$.o"),
        (["-c", "-MD", "-MT", "t 1 t 2"], "k.d", "t 1 t 2"),  # verbatim, as for every compiler
        (["-c", "-MD", "-MT", "a b.o", "-o", "a b.o"], "a b.d", "a\\ b.o"),  # CMake: one file
        (["-c", "-MD", "-MQ", "a b$.o"], "k.d", "a\\ b$$.o"),
        (["-MD", "-o", "prog"], "prog.d", "prog"),
        (["-M"], None, "k.o"),
        (["-MM", "-o", "x.d"], "x.d", "k.o"),
    ],
)
def test_depfile_names_and_targets(words: list[str], path: str | None, target: str) -> None:
    found = make([*words, "k.tileir", "-arch=sm_90"]).jobs[0].depfile
    assert found is not None
    assert (found.path, found.target) == (path, target)


def test_intermediates_have_names_that_do_not_depend_on_the_process() -> None:
    done = make(["k.tileir", "d/k.tileir", "-o", "p", "-arch=sm_90"])
    names = [step.output for job in done.jobs for step in job.steps]
    assert len(set(names)) == len(names)
    assert all(name.startswith("/t/") for name in names)
    assert [job.output for job in done.jobs] == ["/t/k.tile.o", "/t/k-2.tile.o"]


def test_keep_leaves_intermediates_under_nvccs_names() -> None:
    done = make(["-c", "k.tileir", "-arch=sm_90", "--keep", "--keep-dir", "kept"])
    assert {step.output for job in done.jobs for step in job.steps} >= {
        "kept/k.sm_90.tile.cubin",
        "kept/k.tile.fatbin",
    }


def test_identifiers() -> None:
    assert [plan.identifier(stem) for stem in ("k", "my-kernel.v2", "3d", "", "é")] == [
        "k",
        "my_kernel_v2",
        "_3d",
        "_",
        "_",
    ]


def test_profile_keeps_the_toolkits_lines_and_puts_our_tools_first() -> None:
    text = (
        "TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\nPATH += $(CICC_PATH):$(_HERE_):\nPTXAS_FLAGS +=\n"
    )
    assert home.write_profile(text, "/opt/cuda/bin", "/c/tools", "/opt/cuda").splitlines() == [
        "TOP = /opt/cuda/bin/..", "CICC_PATH = $(TOP)/nvvm/bin", "PATH += $(CICC_PATH):/opt/cuda/bin:", "PTXAS_FLAGS +=",
        "", "PATH += /c/tools:", "CUDA_ROOT = /opt/cuda", "TILEIRAS_TOOLKIT_ROOT = /opt/cuda",
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["plain", "a b", "it's", "$HOME", "", "é", "a\nb", "`x`", "*"])
def test_quoting_survives_sh(word: str) -> None:
    import subprocess

    done = subprocess.run(
        ["sh", "-c", f"printf %s {home.quote(word)}"], capture_output=True, text=True, check=True
    )
    assert done.stdout == word
