"""Single artefacts: tile_cubin (one architecture), tile_fatbin (several libraries), tile_kernels_json."""

load("//:providers.bzl", "TileFlagInfo", "TileInfo")
load(
    "//private:compile.bzl",
    "COMPILE_ATTRS",
    "SOURCE_SUFFIXES",
    "TOOLCHAIN_TYPE",
    "bytecode_sources",
    "compile_source",
    "run_tool",
    "target_archs",
)
load("//private:library.bzl", "collect_tile_info")
load("//private:package.bzl", "build_fatbin")

def _tile_cubin_impl(ctx):
    sources = bytecode_sources(ctx)
    if len(sources) != 1:
        fail("%s: tile_cubin makes one image, but %d kernels are exported" % (ctx.label, len(sources)))
    archs = target_archs(ctx, [ctx.attr.arch])
    if len(archs.real) != 1 or archs.cpu:
        fail("%s: arch = '%s' must name one real architecture, such as sm_90" % (ctx.label, ctx.attr.arch))
    image = compile_source(ctx, sources[0], archs.real[0], stem = "_tile/%s/%s" % (ctx.label.name, sources[0].stem))
    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".cubin")
    ctx.actions.symlink(output = out, target_file = image.file)
    info = collect_tile_info(struct(
        bytecode = [sources[0].file],
        commands = [image.command],
        cubins = [struct(arch = image.arch, host = image.host, file = out, source = image.source)],
        fatbins = [],
        header = None,
        headers = [],
        kernels = [image.kernels],
    ), [])
    return [
        DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out])),
        info,
        OutputGroupInfo(
            cubin = depset([out]),
            json = depset([image.kernels]),
            ptx = depset([image.ptx] if image.ptx else []),
            remarks = depset([image.remarks] if image.remarks else []),
            report = depset([image.report] if image.report else []),
        ),
    ]

tile_cubin = rule(
    implementation = _tile_cubin_impl,
    attrs = dict(
        COMPILE_ATTRS,
        srcs = attr.label_list(allow_empty = False, allow_files = SOURCE_SUFFIXES, mandatory = True, doc = "One source."),
        arch = attr.string(mandatory = True, doc = "One real architecture, such as sm_90."),
        out = attr.string(doc = "Name of the file; default: <name>.cubin."),
    ),
    provides = [TileInfo],
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Compiles one source for one architecture into one file. Needs no C++ toolchain.",
)

def _tile_fatbin_impl(ctx):
    by_arch = {}
    cubins = []
    for dep in ctx.attr.deps:
        for cubin in dep[TileInfo].cubins.to_list():
            other = by_arch.get(cubin.arch)
            if other and other.file != cubin.file:
                fail(("%s: %s and %s are both images for %s. CUDA loads one image per architecture from a container, " +
                      "so one of them could never be found: give them one container each, or other architectures.") %
                     (ctx.label, other.file.short_path, cubin.file.short_path, cubin.arch))
            if not other:
                by_arch[cubin.arch] = cubin
                cubins.append(cubin)
    if not cubins:
        fail("%s: deps have no image" % ctx.label)
    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".fatbin")
    entries = [struct(kind = "elf", arch = cubin.arch, file = cubin.file) for cubin in cubins]
    build_fatbin(ctx, out, entries, ctx.attr.compress)
    kernels = [file for dep in ctx.attr.deps for file in dep[TileInfo].kernels.to_list()]
    info = collect_tile_info(struct(
        bytecode = [],
        commands = [],
        cubins = cubins,
        fatbins = [out],
        header = None,
        headers = [],
        kernels = kernels,
    ), ctx.attr.deps)
    return [
        DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out])),
        info,
        OutputGroupInfo(fatbin = depset([out]), json = depset(kernels), cubin = depset([cubin.file for cubin in cubins])),
    ]

tile_fatbin = rule(
    implementation = _tile_fatbin_impl,
    attrs = {
        "compress": attr.string(values = ["", "default", "size", "speed", "balance", "none"]),
        "deps": attr.label_list(mandatory = True, providers = [TileInfo], doc = "tile_library and tile_cubin targets."),
        "out": attr.string(doc = "Name of the file; default: <name>.fatbin."),
        "_worker": attr.label(default = "//tile:worker", providers = [TileFlagInfo]),
    },
    provides = [TileInfo],
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Bundles the images of several libraries, one per architecture, into one container.",
)

def _tile_kernels_json_impl(ctx):
    out = ctx.actions.declare_file(ctx.attr.out or ctx.label.name + ".json")
    tables = depset(transitive = [dep[TileInfo].transitive_kernels for dep in ctx.attr.deps]).to_list()
    run_tool(
        ctx,
        mnemonic = "TileKernels",
        verb = "bazel-kernels",
        arguments = ["-o", out] + tables,
        inputs = tables,
        outputs = [out],
        message = "Listing kernels of %s" % ctx.label.name,
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

tile_kernels_json = rule(
    implementation = _tile_kernels_json_impl,
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [TileInfo]),
        "out": attr.string(doc = "Name of the file; default: <name>.json."),
        "_worker": attr.label(default = "//tile:worker", providers = [TileFlagInfo]),
    },
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Writes one table of every kernel in `deps`: {\"version\": 1, \"images\": [<kernels.json of each image>]}.",
)
