"""The compile actions: one per source and architecture, so that they run in parallel and rebuild alone.

Every action runs the toolchain's build command with a parameter file, which is also what makes it usable by a
persistent worker. Its environment is the toolchain's and complete: nothing of the client's shell reaches it.
"""

load("@tileiras_compat//:py.bzl", "PyInfo")
load("//:toolchain.bzl", _TOOLCHAIN_TYPE = "TOOLCHAIN_TYPE")
load("//private:archs.bzl", "normalize_archs")
load("//private:flags.bzl", "FLAGS", "flag")
load("//private:options.bzl", "CODE_OPTIONS")

TOOLCHAIN_TYPE = _TOOLCHAIN_TYPE

# Tile IR bytecode and text; cuTile Python is exported to bytecode first.
TILE_IR_SUFFIXES = [".tileir", ".tilebc", ".tileirbc", ".mlir"]
SOURCE_SUFFIXES = TILE_IR_SUFFIXES + [".py"]

COMPILE_ATTRS = dict(
    dict(FLAGS, **CODE_OPTIONS),
    hdrs = attr.label_list(allow_files = True, doc = "Files that sources include or, for .py, import."),
    host_constraint = attr.label(doc = "A @platforms//cpu constraint for the host code inside images; default: the target platform."),
    py_deps = attr.label_list(doc = "py_library targets that .py sources import, such as your cuda-tile distribution."),
    matrices = attr.label_keyed_string_dict(allow_files = [".json"], doc = "For .py: JSON matrix of signatures -> the entry that it is for."),
    signatures = attr.string_list_dict(doc = "For .py: entry -> its signatures; several give several kernels."),
    _aarch64 = attr.label(default = "@platforms//cpu:aarch64"),
    _windows = attr.label(default = "@platforms//os:windows"),
    _x86_64 = attr.label(default = "@platforms//cpu:x86_64"),
)

def tile_toolchain(ctx):
    """Returns the TileToolchainInfo of this target's toolchain."""
    return ctx.toolchains[TOOLCHAIN_TYPE].tile

def chosen_compiler(ctx):
    """Chooses the compiler by attribute, then flag; fails when the toolchain has no such compiler.

    Args:
      ctx: rule context.

    Returns:
      'builtin' or 'nvidia'.
    """
    compiler = ctx.attr.compiler or flag(ctx, "compiler")
    if compiler == "nvidia" and not tile_toolchain(ctx).nvidia_compiler:
        fail("%s: compiler = \"nvidia\", but the Tile toolchain %s holds no NVIDIA tileiras" %
             (ctx.label, tile_toolchain(ctx).fingerprint))
    return compiler

def launch_abi(ctx):
    """Chooses the launch ABI of the images: NVIDIA's compiler writes 'tile' images only.

    Args:
      ctx: rule context.

    Returns:
      'simt' or 'tile'.
    """
    if chosen_compiler(ctx) == "nvidia":
        if ctx.attr.launch_abi == "simt":
            fail("%s: launch_abi = \"simt\" needs compiler = \"builtin\": NVIDIA's compiler writes tile images only" % ctx.label)
        return "tile"
    return ctx.attr.launch_abi or flag(ctx, "launch_abi")

def target_archs(ctx, spec = None):
    """Chooses the architectures of this target; fails with the reason when there is none.

    Args:
      ctx: rule context.
      spec: words to use instead of attribute and flag.

    Returns:
      struct(real, virtual, cpu, dropped, error) of normalize_archs().
    """
    compiler = chosen_compiler(ctx)
    words = spec or ctx.attr.archs or [flag(ctx, "archs")]
    found = normalize_archs(words, tile_toolchain(ctx).supported_archs[compiler])
    if found.error:
        fail("%s: %s (set `archs` or --@tileiras//tile:archs)" % (ctx.label, found.error))
    if found.dropped:
        # buildifier: disable=print
        print("%s: compiler '%s' cannot target %s: dropped" % (ctx.label, compiler, ", ".join(found.dropped)))
    if found.cpu:
        _refuse_for_cpu(ctx, compiler)
    return found

def _refuse_for_cpu(ctx, compiler):
    """Fails where something makes no sense with `cpu` among the architectures."""
    if compiler == "nvidia":
        fail("%s: archs: 'cpu' needs compiler = \"builtin\": NVIDIA's compiler makes no code for the CPU" % ctx.label)
    if ctx.attr.max_registers or ctx.attr.no_spills or ctx.attr.max_shared:
        fail("%s: max_registers, no_spills and max_shared are budgets of a GPU's image: not with 'cpu' among archs" % ctx.label)

def host_platform(ctx):
    """Finds the machine that will load the images: it is part of their identity.

    Args:
      ctx: rule context.

    Returns:
      struct(arch, os).
    """
    aarch64 = ctx.target_platform_has_constraint(ctx.attr._aarch64[platform_common.ConstraintValueInfo])
    if ctx.attr.host_constraint:
        aarch64 = ctx.attr.host_constraint.label == ctx.attr._aarch64.label
        if not aarch64 and ctx.attr.host_constraint.label != ctx.attr._x86_64.label:
            fail("%s: host_constraint = %s is neither @platforms//cpu:x86_64 nor @platforms//cpu:aarch64" %
                 (ctx.label, ctx.attr.host_constraint.label))
    os = "linux"
    if ctx.target_platform_has_constraint(ctx.attr._windows[platform_common.ConstraintValueInfo]):
        os = "windows"
    return struct(arch = "aarch64" if aarch64 else "x86_64", os = os)

def run_tool(ctx, mnemonic, verb, arguments, inputs, outputs, message, transitive_inputs = [], env = {}, worker = True):
    """Registers one action of the build command.

    Args:
      ctx: rule context.
      mnemonic: of the action.
      verb: subcommand.
      arguments: list of strings and Files.
      inputs: list of Files.
      outputs: list of Files.
      message: progress message.
      transitive_inputs: list of depsets.
      env: additions to the toolchain's environment.
      worker: whether a persistent worker may run it.
    """
    toolchain = tile_toolchain(ctx)
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    args.add(verb)
    for argument in arguments:
        args.add(argument)
    requirements = {}
    if worker and flag(ctx, "worker"):
        requirements = {
            "requires-worker-protocol": "proto",
            "supports-multiplex-sandboxing": "1",
            "supports-multiplex-workers": "1",
            "supports-worker-cancellation": "1",
            "supports-workers": "1",
        }
    ctx.actions.run(
        mnemonic = mnemonic,
        executable = toolchain.compiler,
        arguments = [args],
        inputs = depset(inputs, transitive = transitive_inputs),
        # As tools, not as inputs: a worker is restarted when one of these changes, and sees them in its own sandbox.
        tools = toolchain.all_files,
        outputs = outputs,
        env = dict(toolchain.env, **env),
        use_default_shell_env = False,
        execution_requirements = requirements,
        progress_message = message,
    )

def stem_of(file):
    """Takes the Tile suffix off a file's name.

    Args:
      file: a source.

    Returns:
      string.
    """
    for suffix in SOURCE_SUFFIXES:
        if file.basename.endswith(suffix):
            return file.basename[:-len(suffix)]
    return file.basename

def numbered_sources(ctx, files):
    """Places the outputs of each source; sources with one basename get a folder with their index.

    Args:
      ctx: rule context.
      files: the sources.

    Returns:
      list of struct(file, stem, folder, declared): `declared` are the files that its actions may read.
    """
    seen = {}
    for file in files:
        seen[stem_of(file)] = seen.get(stem_of(file), 0) + 1
    result = []
    for index, file in enumerate(files):
        stem = stem_of(file)
        folder = "_tile/%s/" % ctx.label.name + ("%d/" % index if seen[stem] > 1 else "")
        result.append(struct(file = file, stem = stem, folder = folder, declared = [file] + ctx.files.hdrs))
    return result

def export_python(ctx, source, entry, many):
    """Registers the export of one function of a .py file by cuTile Python.

    Args:
      ctx: rule context.
      source: struct of numbered_sources().
      entry: name of the function.
      many: whether the file has more than one entry, so that names of outputs need it.

    Returns:
      struct like numbered_sources()', for the bytecode.
    """
    stem = source.stem + ("." + entry if many else "")
    out = ctx.actions.declare_file("%s%s.tilebc" % (source.folder, stem))
    imports, files = py_imports(ctx)
    declared = source.declared + files.to_list()
    arguments = ["--entry", entry, "-o", out] + ["--path=" + path for path in imports]
    matrices = [target for target, name in ctx.attr.matrices.items() if name == entry]
    signatures = ctx.attr.signatures.get(entry, [ctx.attr.signature] if ctx.attr.signature else [])
    if len(matrices) > 1 or bool(matrices) == bool(signatures):
        fail("%s: '%s' needs a `signature`, an entry in `signatures`, or one matrix in `matrices`" % (ctx.label, entry))
    arguments += ["--signature=" + signature for signature in signatures]
    for matrix in matrices:
        arguments += ["--matrix"] + matrix.files.to_list()
        declared += matrix.files.to_list()
    if ctx.attr.bytecode_version:
        arguments += ["--bytecode-version", ctx.attr.bytecode_version]
    arguments += ["--declared=" + file.path for file in declared]
    run_tool(
        ctx,
        mnemonic = "TileExport",
        verb = "export",
        arguments = arguments + [source.file],
        inputs = declared,
        outputs = [out],
        message = "Exporting %s from %s" % (entry, source.file.short_path),
    )
    return struct(file = out, stem = stem, folder = source.folder, declared = [out])

def py_imports(ctx):
    """Finds where Python imports `py_deps` from, by what py_library declares.

    Args:
      ctx: rule context.

    Returns:
      (import roots as execution paths, depset of files).
    """
    roots = ["."]
    files = []
    for target in ctx.attr.py_deps:
        files += [target[DefaultInfo].files, target[DefaultInfo].default_runfiles.files]
        if PyInfo not in target:
            continue
        for root in target[PyInfo].imports.to_list():
            workspace, _, path = root.partition("/")
            folder = path or "."
            if workspace != ctx.workspace_name and workspace != "_main":
                folder = "external/" + root
            for candidate in (folder, ctx.bin_dir.path + "/" + folder):
                if candidate not in roots:
                    roots.append(candidate)
    return roots, depset(transitive = files)

def bytecode_sources(ctx):
    """Lists the Tile IR sources of the target; a .py file gives one per entry, by way of cuTile Python.

    Args:
      ctx: rule context.

    Returns:
      list like numbered_sources()'.
    """
    result = []
    named = ctx.attr.entries + [entry for entry in ctx.attr.signatures if entry not in ctx.attr.entries]
    named += [entry for entry in ctx.attr.matrices.values() if entry not in named]
    for source in numbered_sources(ctx, ctx.files.srcs):
        if not source.file.basename.endswith(".py"):
            result.append(source)
            continue
        if not named:
            fail("%s: %s is cuTile Python: `entries` must name the kernels to export" % (ctx.label, source.file.basename))
        result += [export_python(ctx, source, entry, len(named) > 1) for entry in named]
    return result

def compile_source(ctx, source, arch, stem = None, bytecode = False, virtual = False):
    """Registers the compilation of one source for one architecture.

    Args:
      ctx: rule context.
      source: struct of bytecode_sources().
      arch: number with suffix, such as '90a'.
      stem: base of the outputs' names; default: the source's folder and stem.
      bytecode: whether to write the bytecode too (it depends on no architecture).
      virtual: PTX for this and later GPUs instead of an image.

    Returns:
      struct(arch, host, file, source, kernels, ptx, bytecode, remarks, report, command)
    """
    compiler = chosen_compiler(ctx)
    host = host_platform(ctx)
    stem = stem or source.folder + source.stem
    label = ("compute_" if virtual else "sm_") + arch
    base = "%s.%s" % (stem, label)
    main = ctx.actions.declare_file(base + (".ptx" if virtual else ".cubin"))
    kernels = ctx.actions.declare_file(base + ".kernels.json")
    outputs = [main, kernels]
    files = ["--kernels-json", kernels]
    ptx = main if virtual else None
    if compiler == "builtin" and not virtual:
        ptx = ctx.actions.declare_file(base + ".ptx")
        outputs.append(ptx)
        files += ["--ptx", ptx]
    tilebc = None
    if bytecode:
        tilebc = ctx.actions.declare_file(stem + ".tilebc")
        outputs.append(tilebc)
        files += ["--tilebc", tilebc]
    remarks = None
    if ctx.attr.remarks:
        remarks = ctx.actions.declare_file(base + ".remarks.yaml")
        outputs.append(remarks)
        files += ["--remarks", ctx.attr.remarks, "--remarks-output", remarks]
    report = None
    if ctx.attr.report and not virtual:
        if compiler == "nvidia":
            fail("%s: report needs compiler = \"builtin\": NVIDIA's compiler does not tell what a report shows" % ctx.label)
        report = ctx.actions.declare_file("%s.report.%s" % (base, ctx.attr.report))
        outputs.append(report)
        files += ["--report", report]
    arguments = _compile_flags(ctx, source, compiler, host, virtual)
    arguments += ["--arch", label] + files + ["-o", main]
    arguments += ["--declared=" + file.path for file in source.declared]
    arguments.append(source.file)
    run_tool(
        ctx,
        mnemonic = "TileCompile",
        verb = "compile",
        arguments = arguments,
        inputs = source.declared,
        outputs = outputs,
        message = "Compiling %s for %s" % (source.file.short_path, label),
    )
    words = ["compile"] + [a if type(a) == "string" else a.path for a in arguments]
    return struct(
        arch = label,
        host = "%s-%s" % (host.arch, host.os),
        file = main,
        source = source.file,
        kernels = kernels,
        ptx = ptx,
        bytecode = tilebc,
        remarks = remarks,
        report = report,
        command = struct(file = source.file, output = main, arguments = tuple(words)),
    )

def compile_for_cpu(ctx, source, stem):
    """Registers the compilation of one source for the processor of the target platform.

    Args:
      ctx: rule context.
      source: struct of bytecode_sources().
      stem: base of the output's name.

    Returns:
      struct like compile_source()'s; `kernels` holds the code, `file` is the same.
    """
    host = host_platform(ctx)
    if host.os != "linux":
        fail("%s: archs: code for the CPU is made for Linux, not for %s" % (ctx.label, host.os))
    kernels = ctx.actions.declare_file(stem + ".cpu.kernels.json")
    arguments = ["--arch", "cpu", "--compiler", "builtin", "--launch-abi", launch_abi(ctx), "--host-arch", host.arch]
    if source.file in ctx.files.srcs:
        arguments += ["--entry=" + entry for entry in ctx.attr.entries]
    arguments += ["--kernels-json", kernels]
    arguments += ["--declared=" + file.path for file in source.declared]
    arguments.append(source.file)
    run_tool(
        ctx,
        mnemonic = "TileCompile",
        verb = "compile",
        arguments = arguments,
        inputs = source.declared,
        outputs = [kernels],
        message = "Compiling %s for the CPU" % source.file.short_path,
    )
    words = ["compile"] + [a if type(a) == "string" else a.path for a in arguments]
    return struct(
        arch = "cpu",
        host = "%s-%s" % (host.arch, host.os),
        file = kernels,
        source = source.file,
        kernels = kernels,
        ptx = None,
        bytecode = None,
        remarks = None,
        report = None,
        command = struct(file = source.file, output = kernels, arguments = tuple(words)),
    )

def _is_size(text):
    """Whether `text` is empty or a number, with K or M behind it."""
    digits = text.upper()
    for unit in ("B", "I", "K", "M"):
        if digits.endswith(unit):
            digits = digits[:-1]
    return text == "" or digits.strip().isdigit()

def _compile_flags(ctx, source, compiler, host, virtual):
    """Returns the options that do not name outputs. Values that may begin with '-' are joined by '='."""
    debug = ctx.attr.debug or flag(ctx, "debug")
    if ctx.attr.debug and ctx.attr.opt_level > 0:
        fail("%s: debug needs opt_level = 0: optimised code cannot be debugged" % ctx.label)
    if ctx.attr.max_registers < 0:
        fail("%s: max_registers = %d is negative" % (ctx.label, ctx.attr.max_registers))
    if not _is_size(ctx.attr.max_shared):
        fail("%s: max_shared = '%s' is no size (examples: 49152, 100K)" % (ctx.label, ctx.attr.max_shared))
    level = flag(ctx, "opt_level") if ctx.attr.opt_level < 0 else str(ctx.attr.opt_level)
    flags = ["--compiler", compiler, "--opt-level", "0" if debug else level]
    flags += ["--host-arch", host.arch, "--host-os", host.os]
    if compiler == "builtin":
        flags += ["--launch-abi", launch_abi(ctx)]
    if ctx.attr.tensor_maps == "launcher" and launch_abi(ctx) != "simt":
        fail("%s: tensor_maps = \"launcher\" needs launch_abi = \"simt\", which compiler = \"builtin\" makes" % ctx.label)
    if ctx.attr.tensor_maps:
        flags += ["--tensor-maps", ctx.attr.tensor_maps]
    if tile_toolchain(ctx).toolkit_root:
        flags += ["--toolkit-root", tile_toolchain(ctx).toolkit_root]
    if debug:
        flags.append("--debug")
    if ctx.attr.lineinfo:
        flags.append("--lineinfo")
    if ctx.attr.sanitize:
        flags += ["--sanitize", ctx.attr.sanitize]
    if not virtual:
        # Registers, spills and shared memory are known once ptxas has run.
        if ctx.attr.max_registers:
            flags += ["--max-registers", str(ctx.attr.max_registers)]
        if ctx.attr.no_spills:
            flags.append("--no-spills")
        if ctx.attr.max_shared:
            flags += ["--max-shared", ctx.attr.max_shared]
    exported = source.file not in ctx.files.srcs
    if ctx.attr.bytecode_version and not exported:
        flags += ["--bytecode-version", ctx.attr.bytecode_version]
    flags += ["--entry=" + entry for entry in ([] if exported else ctx.attr.entries)]
    flags += ["--option=" + ctx.expand_location(option, ctx.attr.hdrs) for option in ctx.attr.copts]
    flags += ["--ptxas-option=" + option for option in ctx.attr.ptxasopts]
    return flags
