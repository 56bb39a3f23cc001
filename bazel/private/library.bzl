"""tile_library: Tile kernels as images and as a C or C++ library."""

load("@tileiras_compat//:cc.bzl", "CcInfo")
load("//:providers.bzl", "TileInfo")
load("//private:cc.bzl", "CC_ATTRS", "RULE_CC_TOOLCHAINS", "build_cc")
load(
    "//private:compile.bzl",
    "COMPILE_ATTRS",
    "SOURCE_SUFFIXES",
    "TOOLCHAIN_TYPE",
    "bytecode_sources",
    "chosen_compiler",
    "launch_abi",
    "run_tool",
    "target_archs",
    "tile_toolchain",
)
load("//private:flags.bzl", "ALLOWLIST", "tile_archs_transition")
load("//private:options.bzl", "FORMATS", "LIBRARY_OPTIONS")
load("//private:package.bzl", "build_fatbin", "build_header", "build_images", "identifier", "image_entries")

def _umbrella(ctx, headers):
    """Writes and returns the header that includes one header per source."""
    out = ctx.actions.declare_file(ctx.label.name + "_tile.h")
    guard = "TILEIRAS_HEADER_" + identifier(out.short_path)
    lines = ["/* Every kernel table of this library. */", "#ifndef " + guard, "#define " + guard]
    lines += ["#include \"%s\"" % header.path[len(out.dirname) + 1:] for header in headers]
    lines.append("#endif")
    ctx.actions.write(out, "\n".join(lines) + "\n")
    return out

def collect_tile_info(own, deps):
    """Returns TileInfo of struct(bytecode, cubins, fatbins, headers, header, kernels, commands) and of deps."""
    infos = [dep[TileInfo] for dep in deps if TileInfo in dep]
    return TileInfo(
        bytecode = depset(own.bytecode),
        cubins = depset(own.cubins),
        fatbin = own.fatbins[0] if len(own.fatbins) == 1 else None,
        fatbins = depset(own.fatbins),
        header = own.header,
        kernels = depset(own.kernels),
        commands = depset(own.commands),
        transitive_bytecode = depset(own.bytecode, transitive = [i.transitive_bytecode for i in infos]),
        transitive_commands = depset(own.commands, transitive = [i.transitive_commands for i in infos]),
        transitive_cubins = depset(own.cubins, transitive = [i.transitive_cubins for i in infos]),
        transitive_fatbins = depset(own.fatbins, transitive = [i.transitive_fatbins for i in infos]),
        transitive_headers = depset(own.headers, transitive = [i.transitive_headers for i in infos]),
        transitive_kernels = depset(own.kernels, transitive = [i.transitive_kernels for i in infos]),
    )

def public_cubin(image):
    """Returns the struct that TileInfo.cubins holds."""
    return struct(arch = image.arch, host = image.host, file = image.file, source = image.source)

def _validate(ctx, kernels):
    """Registers the check that the library's kernel tables agree with each other; returns its marker."""
    marker = ctx.actions.declare_file("_tile/%s/validated" % ctx.label.name)
    run_tool(
        ctx,
        mnemonic = "TileValidate",
        verb = "bazel-validate",
        arguments = ["-o", marker, "--label", str(ctx.label)] + kernels,
        inputs = kernels,
        outputs = [marker],
        message = "Validating kernels of %s" % ctx.label.name,
    )
    return marker

def _tile_library_impl(ctx):
    for word in ctx.attr.formats:
        if word not in FORMATS:
            fail("%s: formats: '%s' is not one of %s" % (ctx.label, word, ", ".join(FORMATS)))
    if "ptx" in ctx.attr.formats and chosen_compiler(ctx) == "nvidia":
        fail("%s: formats = [\"ptx\"] needs compiler = \"builtin\": NVIDIA's compiler writes no PTX" % ctx.label)
    if ctx.attr.prefix and ctx.attr.prefix != identifier(ctx.attr.prefix):
        fail("%s: prefix = '%s' is no C identifier" % (ctx.label, ctx.attr.prefix))
    for part in ctx.attr.namespace.split("::") if ctx.attr.namespace else []:
        if part != identifier(part) or not part:
            fail("%s: namespace = '%s' is no C++ namespace" % (ctx.label, ctx.attr.namespace))
    archs = target_archs(ctx)
    has_images = bool(archs.real or archs.virtual)
    if not has_images and ctx.attr.embed != "array":
        fail("%s: embed = \"%s\" has no image to embed: archs has 'cpu' alone" % (ctx.label, ctx.attr.embed))
    if not archs.real and launch_abi(ctx) != "tile" and (ctx.attr.max_registers or ctx.attr.no_spills or ctx.attr.max_shared):
        fail("%s: max_registers, no_spills and max_shared need a real architecture: what portable code uses is decided by the driver" % ctx.label)
    sources = bytecode_sources(ctx)
    toolchain = tile_toolchain(ctx)
    single = len(sources) == 1
    prefix = identifier(ctx.attr.prefix or ctx.label.name)
    prefixes = []
    suffix = ".c" if ctx.attr.language == "C" else ".cc"
    fatbins, headers, cc_sources, images, bytecode, compiled = [], [], [], [], [], []
    for source in sources:
        image = build_images(ctx, source, archs)
        base = ctx.label.name if single else source.folder + source.stem
        fatbin = None
        if has_images:
            fatbin = ctx.actions.declare_file(base + ".fatbin")
            build_fatbin(ctx, fatbin, image_entries(image), ctx.attr.compress)
            fatbins.append(fatbin)
        header = ctx.actions.declare_file(base + "_tile.h")
        code = ctx.actions.declare_file(base + "_tile" + suffix)
        own_prefix = prefix if single else "%s_%s" % (prefix, identifier(source.stem))
        if not single and source.folder.count("/") > 2:
            own_prefix += "_" + source.folder.split("/")[-2]
        same = len([None for other in prefixes if other == own_prefix])
        prefixes.append(own_prefix)
        if same:
            own_prefix += "_%d" % (same + 1)  # "a-b" and "a_b" are two files, but one identifier
            prefixes.append(own_prefix)
        build_header(ctx, header, code, fatbin, [one.kernels for one in image.compiled], own_prefix)
        headers.append(header)
        cc_sources.append(code)
        images += image.cubins
        compiled += image.compiled
        bytecode.append(image.bytecode)
    public = headers[0] if single else _umbrella(ctx, headers)
    public_headers = headers if single else [public] + headers
    cc = build_cc(
        ctx,
        name = ctx.label.name,
        sources = cc_sources,
        headers = public_headers,
        deps = [dep for dep in ctx.attr.deps if CcInfo in dep],
        data_inputs = fatbins if ctx.attr.embed == "incbin" else [],
        include_root = toolchain.include_root,
        include_files = toolchain.include,
        link_flags = ["-lm", "-lpthread"] if archs.cpu else [],  # the pool's, where libc alone does not hold them
    )
    info = collect_tile_info(struct(
        bytecode = bytecode,
        commands = [one.command for one in compiled],
        cubins = [public_cubin(one) for one in images],
        fatbins = fatbins,
        header = public,
        headers = public_headers,
        kernels = [one.kernels for one in compiled],
    ), ctx.attr.deps)
    groups = {
        "cubin": [one.file for one in images],
        "fatbin": fatbins,
        "header": public_headers + cc_sources,
        "json": [one.kernels for one in compiled],
        "ptx": [one.ptx for one in compiled if one.ptx],
        "remarks": [one.remarks for one in compiled if one.remarks],
        "report": [one.report for one in compiled if one.report],
        "tilebc": bytecode,
    }
    files = []
    for word in ctx.attr.formats:
        files += groups[word]
    runfiles = ctx.runfiles(files = fatbins + [one.kernels for one in compiled] + ctx.files.data)
    for dep in ctx.attr.deps + ctx.attr.data:
        runfiles = runfiles.merge(dep[DefaultInfo].default_runfiles)
    return [
        DefaultInfo(files = depset(files), runfiles = runfiles),
        info,
        cc.info,
        OutputGroupInfo(
            _validation = depset([_validate(ctx, [one.kernels for one in compiled])]),
            object = depset(cc.files),
            **{name: depset(group) for name, group in groups.items()}
        ),
    ]

tile_library = rule(
    implementation = _tile_library_impl,
    attrs = dict(
        dict(dict(COMPILE_ATTRS, **CC_ATTRS), **LIBRARY_OPTIONS),
        srcs = attr.label_list(allow_empty = False, allow_files = SOURCE_SUFFIXES, mandatory = True, doc = "Tile IR (text or bytecode) or cuTile Python."),
        deps = attr.label_list(
            # The target itself reads `archs`, and what it depends on is configured for them. An incoming transition
            # would do both, but would move the target's own outputs out of bazel-bin, and Bazel 5 and newer remove
            # bazel-bin altogether when one build has targets of both kinds.
            cfg = tile_archs_transition,
            providers = [[TileInfo], [CcInfo]],
            doc = "Tile and C++ libraries that consumers get too.",
        ),
        data = attr.label_list(allow_files = True, doc = "Files for run time."),
        defines = attr.string_list(doc = "Preprocessor definitions for consumers."),
        include_prefix = attr.string(doc = "As for cc_library."),
        strip_include_prefix = attr.string(doc = "As for cc_library."),
        linkopts = attr.string_list(doc = "Link options for consumers, such as -lcuda."),
        alwayslink = attr.bool(doc = "Keep the object even if nothing refers to it."),
        linkstatic = attr.bool(default = True, doc = "Only a static library."),
    ),
    provides = [TileInfo, CcInfo],
    toolchains = [TOOLCHAIN_TYPE] + RULE_CC_TOOLCHAINS,
    fragments = ["cpp"],
    doc = """Compiles Tile kernels for every architecture and makes them a library.

Outputs: `<source>.sm_NN.cubin` per source and architecture, one `<name>.fatbin`, `<name>_tile.h` and the kernel tables
(with several sources a container and a header per source, and `<name>_tile.h` includes them all). `cc_binary`,
`cc_library` and `cc_test` take the target as a dependency; `py_test` and others as data.""",
)

def _tile_configured_impl(ctx):
    library = ctx.attr.library
    groups = library[OutputGroupInfo] if OutputGroupInfo in library else None
    result = [DefaultInfo(files = library[DefaultInfo].files, runfiles = library[DefaultInfo].default_runfiles)]
    if CcInfo in library:
        result.append(library[CcInfo])
    if groups:
        result.append(groups)
    return result + [library[TileInfo]]

tile_configured = rule(
    implementation = _tile_configured_impl,
    cfg = tile_archs_transition,
    attrs = dict(
        archs = attr.string_list(mandatory = True, doc = "Architectures for everything below this target."),
        library = attr.label(mandatory = True, providers = [TileInfo], doc = "What to build for them."),
        **ALLOWLIST
    ),
    provides = [TileInfo],
    doc = """Stands for `library`, built for `archs`: one library can so be there for several sets of architectures in one build.

The outputs lie in an output folder of their own (`bazel cquery --output=files` names it).""",
)
