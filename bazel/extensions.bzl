"""The module extension `tile`, for MODULE.bazel.

    bazel_dep(name = "tileiras", version = "0.1.0")

    tile = use_extension("@tileiras//:extensions.bzl", "tile")
    tile.toolkit(name = "system", path = "/usr/local/cuda-13.4")      # or none of these: what the resolver finds
    tile.wheel(version = "13.4.92", urls = {...}, sha256 = {...})
    tile.redist_json(version = "13.4.0", url = "https://.../redistrib_13.4.0.json", sha256 = "...")
    use_repo(tile, "tile_toolchains")

    register_toolchains("@tile_toolchains//:all")

The tags of the root module count; a library's are used only when the root module has none, so that a dependency
cannot change the tools of a build. Without any tag there is one local toolchain.
"""

load("//private:hub_repo.bzl", "tile_compat", "tile_hub")
load(
    "//private:toolchain_repo.bzl",
    "tile_local_toolchain",
    "tile_redist_toolchain",
    "tile_wheel_toolchain",
)

def _clean(text):
    return "".join([c if c.isalnum() else "_" for c in text.elems()])

def _tagged(module_ctx):
    """Returns the modules whose tags count."""
    tagged = [m for m in module_ctx.modules if m.tags.toolkit or m.tags.wheel or m.tags.redist_json]
    roots = [m for m in tagged if m.is_root]
    return roots or tagged

def _repo(kind, name):
    return "tile_toolchain_%s_%s" % (kind, _clean(name))

def _tile_impl(module_ctx):
    entries = []
    cuda_archs_flag = ""
    python = ""
    for module in module_ctx.modules:
        for tag in module.tags.options:
            if tag.cuda_archs_flag and not cuda_archs_flag:
                cuda_archs_flag = str(tag.cuda_archs_flag)
            if module.is_root and tag.python:
                python = tag.python
    names = {}
    for module in _tagged(module_ctx):
        for tag in module.tags.toolkit:
            repo = _repo("local", tag.name)
            if repo not in names:
                tile_local_toolchain(name = repo, path = tag.path, python = tag.python or python, package = tag.package)
                entries.append("%s|%s|%s" % (repo, tag.name, ",".join(tag.exec_compatible_with)))
            names[repo] = None
        for tag in module.tags.wheel:
            repo = _repo("wheels", tag.version + tag.platform)
            if repo not in names:
                tile_wheel_toolchain(
                    name = repo,
                    python = tag.python or python,
                    sha256s = tag.sha256,
                    tileiras_sha256 = tag.tileiras_sha256,
                    tileiras_url = tag.tileiras_url,
                    urls = tag.urls,
                    version = tag.version,
                )
                entries.append("%s|%s|%s" % (repo, tag.version, ",".join(tag.exec_compatible_with)))
            names[repo] = None
        for tag in module.tags.redist_json:
            for platform in tag.platforms:
                repo = _repo("redist", tag.version + platform)
                if repo not in names:
                    tile_redist_toolchain(
                        name = repo,
                        json_url = tag.url,
                        platform = platform,
                        python = tag.python or python,
                        sha256s = {"redistrib.json": tag.sha256} if tag.sha256 else {},
                        tileiras_sha256 = tag.tileiras_sha256,
                        tileiras_url = tag.tileiras_url,
                        version = tag.version,
                    )
                    entries.append("%s|%s|%s" % (repo, tag.version, ",".join(_PLATFORMS.get(platform, []))))
                names[repo] = None
    if not entries:
        tile_local_toolchain(name = "tile_toolchain_local", python = python)
        entries.append("tile_toolchain_local|local|")
    tile_hub(name = "tile_toolchains", toolchains = entries)
    tile_compat(
        name = "tileiras_compat",
        bazel_version = getattr(native, "bazel_version", ""),
        cuda_archs_flag = cuda_archs_flag,
    )

# Keys of redistrib files -> where the tools run.
_PLATFORMS = {
    "linux-aarch64": ["@platforms//os:linux", "@platforms//cpu:aarch64"],
    "linux-sbsa": ["@platforms//os:linux", "@platforms//cpu:aarch64"],
    "linux-x86_64": ["@platforms//os:linux", "@platforms//cpu:x86_64"],
}

_PYTHON = attr.string(doc = "Python interpreter that runs the compiler.")
_FETCHED = {
    "exec_compatible_with": attr.string_list(doc = "Constraints of the machines that can run the tools."),
    "python": _PYTHON,
    "tileiras_sha256": attr.string(),
    "tileiras_url": attr.string(doc = "Wheel of tileiras; default: the package that these rules came with."),
    "version": attr.string(mandatory = True),
}

tile = module_extension(
    implementation = _tile_impl,
    tag_classes = {
        "options": tag_class(attrs = {
            "cuda_archs_flag": attr.label(doc = "@rules_cuda//cuda:archs, to use its value where //tile:archs is empty."),
            "python": _PYTHON,
        }),
        "redist_json": tag_class(attrs = dict(
            _FETCHED,
            platforms = attr.string_list(default = ["linux-x86_64"]),
            sha256 = attr.string(doc = "Digest of the JSON file, which holds the digests of the archives."),
            url = attr.string(mandatory = True),
        )),
        "toolkit": tag_class(attrs = {
            "exec_compatible_with": attr.string_list(),
            "name": attr.string(default = "local", doc = "What --@tileiras//tile:toolkit calls it."),
            "package": attr.string(doc = "Folder of the tileiras package; default: the one that these rules came with."),
            "path": attr.string(doc = "Toolkit root; default: what the resolver finds."),
            "python": _PYTHON,
        }),
        "wheel": tag_class(attrs = dict(
            _FETCHED,
            platform = attr.string(default = "linux-x86_64"),
            sha256 = attr.string_dict(mandatory = True, doc = "Digest by wheel name."),
            urls = attr.string_dict(mandatory = True, doc = "URL by wheel name."),
        )),
    },
)
