"""Aspects over Tile kernels: compile commands for editors, every image under a binary, sizes.

    bazel build //... --aspects=@tileiras//:defs.bzl%tile_compdb_aspect --output_groups=tile_compdb
"""

load("//:providers.bzl", "TileFlagInfo", "TileInfo")
load("//private:compile.bzl", "TOOLCHAIN_TYPE", "run_tool", "tile_toolchain")

TileImagesInfo = provider(
    doc = "Every Tile image below a target.",
    fields = {
        "cubins": "depset of File",
        "fatbins": "depset of File",
        "kernels": "depset of File: kernels.json",
    },
)

def _below(ctx, provider_type):
    """Returns the values of a provider on everything that the target's attributes name."""
    found = []
    for name in dir(ctx.rule.attr):
        value = getattr(ctx.rule.attr, name, None)
        for item in value if type(value) == "list" else [value]:
            if type(item) == "Target" and provider_type in item:
                found.append(item[provider_type])
    return found

def _images(target, ctx):
    below = _below(ctx, TileImagesInfo)
    own = target[TileInfo] if TileInfo in target else None
    return TileImagesInfo(
        cubins = depset([c.file for c in own.cubins.to_list()] if own else [], transitive = [b.cubins for b in below]),
        fatbins = depset(own.fatbins.to_list() if own else [], transitive = [b.fatbins for b in below]),
        kernels = depset(own.kernels.to_list() if own else [], transitive = [b.kernels for b in below]),
    )

def _collect_impl(target, ctx):
    info = _images(target, ctx)
    files = depset(transitive = [info.cubins, info.fatbins, info.kernels])
    return [info, OutputGroupInfo(tile_images = files)]

tile_collect_aspect = aspect(
    implementation = _collect_impl,
    attr_aspects = ["*"],
    doc = "Output group tile_images: every cubin, container and kernel table that a target is built from.",
)

TileCompdbInfo = provider(
    doc = "Compile commands below a target.",
    fields = {"files": "depset of File: one JSON file per Tile target"},
)

def _compdb_impl(target, ctx):
    files = []
    commands = target[TileInfo].commands.to_list() if TileInfo in target else []
    if commands:
        out = ctx.actions.declare_file(ctx.label.name + ".tile_compile_commands.json")
        tool = tile_toolchain(ctx).compiler.executable.path
        ctx.actions.write(out, json.encode_indent([
            {
                "arguments": [tool] + list(command.arguments),
                # Editors read the entry from the workspace; bazel-<name> there leads to the execution root.
                "directory": ".",
                "file": command.file.path,
                "output": command.output.path,
            }
            for command in commands
        ]) + "\n")
        files.append(out)
    all_files = depset(files, transitive = [info.files for info in _below(ctx, TileCompdbInfo)])
    return [TileCompdbInfo(files = all_files), OutputGroupInfo(tile_compdb = all_files)]

tile_compdb_aspect = aspect(
    implementation = _compdb_impl,
    attr_aspects = ["*"],
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Output group tile_compdb: <name>.tile_compile_commands.json with one entry per source and architecture.",
)

def _size_impl(target, ctx):
    info = _images(target, ctx)
    files = depset(transitive = [info.cubins, info.fatbins]).to_list()
    if not files:
        return [info]
    out = ctx.actions.declare_file(ctx.label.name + ".tile_sizes.json")
    kernels = info.kernels.to_list()
    run_tool(
        ctx,
        mnemonic = "TileSizes",
        verb = "bazel-sizes",
        arguments = ["-o", out] + files + kernels,
        inputs = files + kernels,
        outputs = [out],
        message = "Measuring Tile images of %s" % ctx.label.name,
    )
    return [info, OutputGroupInfo(tile_sizes = depset([out]))]

tile_size_aspect = aspect(
    implementation = _size_impl,
    attr_aspects = ["*"],
    attrs = {"_worker": attr.label(default = "//tile:worker", providers = [TileFlagInfo])},
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Output group tile_sizes: bytes per image, registers and shared bytes per kernel, as JSON.",
)
