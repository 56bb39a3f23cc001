"""WORKSPACE helpers. In MODULE.bazel use extensions.bzl instead (Bazel 9 reads no WORKSPACE).

    load("@tileiras//:repositories.bzl", "tile_dependencies", "tile_register_toolchains")

    tile_dependencies()

    tile_register_toolchains()                      # mode = "local": this machine's toolkit
"""

load("//private:hub_repo.bzl", "tile_compat", "tile_hub")
load(
    "//private:toolchain_repo.bzl",
    "tile_local_toolchain",
    "tile_redist_toolchain",
    "tile_wheel_toolchain",
)

def tile_dependencies(cuda_archs_flag = ""):
    """Declares what the rules load: one generated repository, nothing from the network.

    Args:
      cuda_archs_flag: "@rules_cuda//cuda:archs" when the workspace has rules_cuda: its value then applies to Tile
        targets too, as long as --@tileiras//tile:archs is not set.
    """
    if "tileiras_compat" not in native.existing_rules():
        tile_compat(
            name = "tileiras_compat",
            bazel_version = getattr(native, "bazel_version", ""),
            cuda_archs_flag = cuda_archs_flag,
        )

def tile_register_toolchains(
        name = "tile_toolchains",
        mode = "local",
        version = "",
        sha256s = {},
        urls = {},
        json_url = "",
        platform = "linux-x86_64",
        path = "",
        python = "",
        package = "",
        tileiras_url = "",
        tileiras_sha256 = "",
        exec_compatible_with = [],
        register = True):
    """Declares one Tile toolchain and registers it. Call it again, with another name, for another version.

    Args:
      name: of the hub repository; the tools live in @<name>_tools.
      mode: "local" (this machine's toolkit), "wheels" (NVIDIA's wheels) or "redist" (NVIDIA's archives).
      version: release of a fetched toolkit, such as "13.4.92"; for "local" the name that the flag
        --@tileiras//tile:toolkit selects it by.
      sha256s: digests of what is fetched: by wheel name, or "redistrib.json".
      urls: "wheels": URL by wheel name.
      json_url: "redist": URL of redistrib_<version>.json.
      platform: "redist": the key of the archives, such as linux-x86_64.
      path: "local": toolkit root; default: what the resolver finds.
      python: interpreter that runs the compiler.
      package: folder of the tileiras package; default: the one that these rules came with.
      tileiras_url: wheel of tileiras for a fetched toolchain; default: as `package`.
      tileiras_sha256: its digest.
      exec_compatible_with: constraints of the machines that can run the tools.
      register: whether to call register_toolchains.
    """
    tools = name + "_tools"
    common = dict(name = tools, package = package, python = python)
    fetched = dict(common, sha256s = sha256s, tileiras_sha256 = tileiras_sha256, tileiras_url = tileiras_url, version = version)
    if mode == "local":
        tile_local_toolchain(path = path, **common)
    elif mode == "wheels":
        tile_wheel_toolchain(urls = urls, **fetched)
    elif mode == "redist":
        tile_redist_toolchain(json_url = json_url, platform = platform, **fetched)
    else:
        fail("tile_register_toolchains: mode = \"%s\" is not one of local, wheels, redist" % mode)
    tile_hub(
        name = name,
        toolchains = ["|".join([tools, version or "local", ",".join(exec_compatible_with)])],
    )
    if register:
        native.register_toolchains("@%s//:all" % name)
