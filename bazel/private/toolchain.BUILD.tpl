# %{comment}

load("@tileiras//:toolchain.bzl", "tile_toolchain")

package(default_visibility = ["//visibility:public"])

exports_files(glob(
    [
        "bin/**",
        "toolkit/**",
    ],
    allow_empty = True,
))

filegroup(
    name = "compiler_files",
    srcs = glob(
        [
            "bin/*",
            "site/**/*.py",
            "site/**/*.json",
            "site/**/*.h",
            "site/**/*.in",
        ],
        allow_empty = True,
        exclude = ["site/**/__pycache__/**"],
    ),
)

filegroup(
    name = "toolkit_files",
    srcs = glob(
        ["toolkit/**"],
        allow_empty = True,
    ),
)

tile_toolchain(
    name = "toolchain",
    all_files = [
        ":compiler_files",
        ":toolkit_files",
    ],
    fingerprint = "%{fingerprint}",
    hermetic = %{hermetic},
    tool = "bin/tile-build",
    version = "%{version}",
%{labels})
