"""Tests of kernels that need no GPU: against .npz data on the emulator, and against a stored disassembly."""

load("//:providers.bzl", "TileInfo")
load("//private:archs.bzl", "normalize_archs")
load("//private:compile.bzl", "TOOLCHAIN_TYPE", "tile_toolchain")

_SCRIPT = """#!/bin/sh
# Written by {rule} for {label}.
if [ -z "$RUNFILES_DIR" ]; then
  if [ -n "$TEST_SRCDIR" ]; then RUNFILES_DIR=$TEST_SRCDIR; else RUNFILES_DIR=$0.runfiles; fi
fi
{env}exec "$RUNFILES_DIR/{tool}" {arguments} "$@"
"""

def runfiles_path(ctx, file):
    """Returns the path of a file below the runfiles root."""
    if file.short_path.startswith("../"):
        return file.short_path[3:]
    return ctx.workspace_name + "/" + file.short_path

def quote(word):
    """Returns a word for sh."""
    return "'" + word.replace("'", "'\\''") + "'"

def _in_runfiles(path):
    return "\"$RUNFILES_DIR\"/" + quote(path)

def _test_script(ctx, rule_name, verb, words, files):
    """Returns the providers of a test that runs the build command with `words`, which are quoted for sh already."""
    toolchain = tile_toolchain(ctx)
    env = ""
    for name, value in toolchain.env.items():
        if name == "TILEIRAS_PYTHON":
            value = None
        if value != None:
            env += "export %s=%s\n" % (name, quote(value))
    if "TILEIRAS_PYTHON" in toolchain.env:
        for file in toolchain.all_files.to_list():
            if file.path == toolchain.env["TILEIRAS_PYTHON"]:
                env += "export TILEIRAS_PYTHON=%s\n" % _in_runfiles(runfiles_path(ctx, file))
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        script,
        _SCRIPT.format(
            arguments = " ".join([verb] + words),
            env = env,
            label = str(ctx.label),
            rule = rule_name,
            tool = runfiles_path(ctx, toolchain.compiler.executable),
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles(files = files, transitive_files = toolchain.all_files)
    return [DefaultInfo(executable = script, files = depset([script]), runfiles = runfiles)]

def _one_bytecode(ctx):
    files = ctx.attr.kernel[TileInfo].bytecode.to_list()
    if len(files) != 1:
        fail("%s: kernel = %s has %d sources; a test runs one" % (ctx.label, ctx.attr.kernel.label, len(files)))
    return files[0]

def _tile_test_impl(ctx):
    source = _one_bytecode(ctx)
    if not ctx.attr.grid or len(ctx.attr.grid) > 3 or min(ctx.attr.grid) < 1:
        fail("%s: grid = %s is not one to three positive numbers" % (ctx.label, ctx.attr.grid))
    if ctx.attr.arch:
        found = normalize_archs(ctx.attr.arch, tile_toolchain(ctx).supported_archs["builtin"])
        if len(found.real) != 1:
            fail("%s: arch = '%s' names no GPU that the emulator stands for, such as sm_90" % (ctx.label, ctx.attr.arch))
    words = [_in_runfiles(runfiles_path(ctx, source))]
    words += ["--entry", quote(ctx.attr.entry), "--grid", quote(",".join([str(n) for n in ctx.attr.grid]))]
    words += ["--data", _in_runfiles(runfiles_path(ctx, ctx.file.data)), "--target", ctx.attr.target]
    if ctx.attr.arch:
        words += ["--arch", quote(ctx.attr.arch)]
    for name in ("rtol", "atol"):
        if getattr(ctx.attr, name):
            words += ["--" + name, quote(getattr(ctx.attr, name))]
    toolchain = tile_toolchain(ctx)
    if toolchain.toolkit_root_runfiles:
        words += ["--toolkit-root", _in_runfiles(toolchain.toolkit_root_runfiles)]
    return _test_script(ctx, "tile_test", "test", words, [source, ctx.file.data])

tile_test = rule(
    implementation = _tile_test_impl,
    test = True,
    attrs = {
        "arch": attr.string(default = "sm_90", doc = "What the emulator compiles for."),
        "atol": attr.string(doc = "Absolute tolerance; default: by element type."),
        "data": attr.label(
            allow_single_file = [".npz"],
            mandatory = True,
            doc = "Arrays arg0, arg1, ... in the order of the entry's parameters, and expected<i> for each argument to compare after the launch.",
        ),
        "entry": attr.string(mandatory = True, doc = "Kernel to launch."),
        "grid": attr.int_list(default = [1, 1, 1], doc = "Tile blocks in x, y, z."),
        "kernel": attr.label(mandatory = True, providers = [TileInfo], doc = "tile_library or tile_cubin with one source."),
        "rtol": attr.string(doc = "Relative tolerance; default: by element type."),
        "target": attr.string(default = "emulator", values = ["emulator", "reference", "cpu", "gpu"], doc = "emulator executes the generated PTX; reference interprets Tile IR; cpu runs native code."),
    },
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Runs a kernel on .npz data without a GPU and compares the results. Python needs NumPy.",
)

def _tile_golden_test_impl(ctx):
    info = ctx.attr.kernel[TileInfo]
    if ctx.attr.kind == "tileir":
        image = _one_bytecode(ctx)
    elif ctx.attr.kind == "ptx":
        files = [f for f in ctx.attr.kernel[OutputGroupInfo].ptx.to_list() if not ctx.attr.arch or ("." + ctx.attr.arch + ".") in f.basename]
        if len(files) != 1:
            fail("%s: %s has %d PTX files for arch = '%s'; exactly one is compared" % (ctx.label, ctx.attr.kernel.label, len(files), ctx.attr.arch))
        image = files[0]
    else:
        files = [c.file for c in info.cubins.to_list() if not ctx.attr.arch or c.arch == ctx.attr.arch]
        if len(files) != 1:
            fail("%s: %s has %d images for arch = '%s'; exactly one is compared" % (ctx.label, ctx.attr.kernel.label, len(files), ctx.attr.arch))
        image = files[0]
    toolchain = tile_toolchain(ctx)
    words = [
        "--kind",
        ctx.attr.kind,
        "--golden",
        _in_runfiles(runfiles_path(ctx, ctx.file.golden)),
        # Where `bazel run <target> -- --bless` writes, below $BUILD_WORKSPACE_DIRECTORY.
        "--golden-source",
        quote(ctx.file.golden.short_path),
    ]
    if ctx.attr.kind == "sass":
        if not toolchain.nvdisasm:
            fail("%s: kind = \"sass\" needs nvdisasm, which the Tile toolchain %s does not hold" % (ctx.label, toolchain.fingerprint))
        words += ["--nvdisasm", _in_runfiles(runfiles_path(ctx, toolchain.nvdisasm))]
    words.append(_in_runfiles(runfiles_path(ctx, image)))
    return _test_script(ctx, "tile_golden_test", "bazel-golden", words, [image, ctx.file.golden])

tile_golden_test = rule(
    implementation = _tile_golden_test_impl,
    test = True,
    attrs = {
        "arch": attr.string(doc = "Which image, such as sm_90; needed when there are several."),
        "golden": attr.label(allow_single_file = True, mandatory = True, doc = "The expected text."),
        "kernel": attr.label(mandatory = True, providers = [TileInfo]),
        "kind": attr.string(default = "ptx", values = ["ptx", "sass", "tileir"], doc = "What is compared."),
    },
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Compares a kernel's disassembly with a file; `bazel run <target> -- --bless` rewrites the file.",
)
