"""tile_toolchain: the tools that Tile actions run, as one set of one release.

The repository rules (repositories.bzl, extensions.bzl) write such targets; write one by hand to use tools that your
own repository holds. `tile_toolchain_info` prints what was resolved: `bazel build @tileiras//:toolchain_info`.
"""

load("//:providers.bzl", "TileToolchainInfo")
load("//private:arch_table.bzl", "BUILTIN_ARCHS", "NVIDIA_ARCHS")

# As a string with its repository: Bazel 4 reads a bare "//tile" as a package of the main workspace.
TOOLCHAIN_TYPE = str(Label("//tile:toolchain_type"))

def _runfiles_path(file):
    """Returns the path of a file below the runfiles root."""
    return file.short_path[3:] if file.short_path.startswith("../") else file.short_path

def _above(path, levels):
    return "/".join(path.split("/")[:-levels])

def _tile_toolchain_impl(ctx):
    ptxas = ctx.file.ptxas
    env = {
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # Bazel caches actions; a second store in somebody's home would make results depend on its contents.
        "TILEIRAS_CACHE": "0",
    }
    tools = ctx.files.all_files + [ctx.file.tool]
    if ctx.file.python:
        env["TILEIRAS_PYTHON"] = ctx.file.python.path
        tools.append(ctx.file.python)
    env.update(ctx.attr.env)
    marker = ctx.file.include_marker
    info = TileToolchainInfo(
        all_files = depset(tools),
        compiler = ctx.attr.tool[DefaultInfo].files_to_run,
        env = env,
        fatbinary = ctx.file.fatbinary,
        fingerprint = ctx.attr.fingerprint,
        hermetic = ctx.attr.hermetic,
        include = depset(ctx.files.include),
        include_root = _above(marker.path, 2) if marker else "",
        libnvvm = ctx.file.libnvvm,
        nvdisasm = ctx.file.nvdisasm,
        nvidia_compiler = ctx.file.nvidia_compiler,
        ptxas = ptxas,
        supported_archs = {"builtin": ctx.attr.supported_archs, "nvidia": ctx.attr.nvidia_archs},
        toolkit_root = _above(ptxas.path, 2) if ptxas else "",
        toolkit_root_runfiles = _above(_runfiles_path(ptxas), 2) if ptxas else "",
        version = ctx.attr.version,
    )
    return [platform_common.ToolchainInfo(tile = info)]

tile_toolchain = rule(
    implementation = _tile_toolchain_impl,
    attrs = {
        "all_files": attr.label_list(allow_files = True, doc = "Everything that `tool` and the toolkit's programs read."),
        "env": attr.string_dict(doc = "Additions to the environment of every action."),
        "fatbinary": attr.label(allow_single_file = True),
        "fingerprint": attr.string(doc = "Names this set of tools in messages."),
        "hermetic": attr.bool(default = True, doc = "False when a path of this machine is baked into `tool`."),
        "include": attr.label_list(allow_files = True, doc = "Headers that generated C code includes."),
        "include_marker": attr.label(allow_single_file = True, doc = "One of `include`, two levels below the include root."),
        "libnvvm": attr.label(allow_single_file = True),
        "nvdisasm": attr.label(allow_single_file = True),
        "nvidia_archs": attr.string_list(default = NVIDIA_ARCHS),
        "nvidia_compiler": attr.label(allow_single_file = True, doc = "NVIDIA's tileiras, beside ptxas."),
        "ptxas": attr.label(allow_single_file = True, doc = "bin/ptxas of the toolkit; the folder above bin is its root."),
        "python": attr.label(allow_single_file = True, doc = "Python interpreter to run `tool` with; default: the one named in it."),
        "supported_archs": attr.string_list(default = BUILTIN_ARCHS),
        "tool": attr.label(allow_single_file = True, executable = True, cfg = "exec", mandatory = True, doc = "The build command."),
        "version": attr.string(doc = "Release of the toolkit, such as 13.4."),
    },
    doc = "Declares the tools of one Tile toolchain.",
)

def _tile_toolchain_info_impl(ctx):
    tile = ctx.toolchains[TOOLCHAIN_TYPE].tile
    out = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(out, json.encode_indent({
        "env": tile.env,
        "fatbinary": tile.fatbinary.path if tile.fatbinary else None,
        "fingerprint": tile.fingerprint,
        "hermetic": tile.hermetic,
        "libnvvm": tile.libnvvm.path if tile.libnvvm else None,
        "nvidia_compiler": tile.nvidia_compiler.path if tile.nvidia_compiler else None,
        "ptxas": tile.ptxas.path if tile.ptxas else None,
        "supported_archs": tile.supported_archs,
        "tool": tile.compiler.executable.path,
        "toolkit_root": tile.toolkit_root,
        "version": tile.version,
    }) + "\n")
    return [
        DefaultInfo(files = depset([out])),
        platform_common.ToolchainInfo(tile = tile),
        platform_common.TemplateVariableInfo({
            "TILE_TOOL": tile.compiler.executable.path,
            "TILE_TOOLKIT_ROOT": tile.toolkit_root,
            "TILE_TOOLKIT_VERSION": tile.version,
        }),
    ]

tile_toolchain_info = rule(
    implementation = _tile_toolchain_info_impl,
    toolchains = [TOOLCHAIN_TYPE],
    doc = "Writes the resolved toolchain as JSON; in `toolchains` of a genrule it defines $(TILE_TOOL) and friends.",
)
