"""What Tile rules tell each other.

`TileInfo` travels along `deps`; `TileToolchainInfo` is the single field `tile` of the resolved toolchain;
`TileFlagInfo` is the value of one of the flags in `@tileiras//tile`.
"""

TileInfo = provider(
    doc = "The artefacts of Tile kernels: of one target, and (fields `transitive_*`) of it and its `deps`.",
    fields = {
        "bytecode": "depset of File: Tile IR as it entered the compiler, one per source (bytecode or text)",
        "cubins": "depset of struct(arch = 'sm_90', host = 'x86_64-linux', file = File, source = File)",
        "fatbin": "File or None: the container; None when the target has several sources (see `fatbins`)",
        "fatbins": "depset of File: one container per source",
        "header": "File or None: the C or C++ header to include",
        "kernels": "depset of File: kernels.json per cubin (names, parameters, launch shape, registers, shared bytes)",
        "commands": "depset of struct(file, output, arguments): the compile commands, for tile_compdb_aspect",
        "transitive_bytecode": "depset of File",
        "transitive_cubins": "depset of struct, as `cubins`",
        "transitive_fatbins": "depset of File",
        "transitive_headers": "depset of File",
        "transitive_kernels": "depset of File",
        "transitive_commands": "depset of struct, as `commands`",
    },
)

TileToolchainInfo = provider(
    doc = "A complete Tile toolchain of one release. Actions run `compiler` and see `all_files`, nothing else.",
    fields = {
        "compiler": "FilesToRunProvider: the build command, which also speaks the worker protocol",
        "ptxas": "File or None",
        "fatbinary": "File or None",
        "nvdisasm": "File or None",
        "nvidia_compiler": "File or None: NVIDIA's own tileiras, needed by `compiler = \"nvidia\"`",
        "libnvvm": "File or None",
        "all_files": "depset of File: everything that an action may read",
        "toolkit_root": "string: execution path of the folder that holds bin/ptxas; empty without a toolkit",
        "toolkit_root_runfiles": "string: the same folder below the runfiles root",
        "include": "depset of File: C headers that generated code includes",
        "include_root": "string: execution path to put on the include path; empty when generated code needs none",
        "version": "string: release of the toolkit, such as 13.4",
        "fingerprint": "string: digest that names the tools",
        "supported_archs": "dict of compiler name -> list of plain architecture numbers, such as '90'",
        "env": "dict: the complete environment of every action",
        "hermetic": "bool: False when a path of this machine is baked in (mode 'local')",
    },
)

TileFlagInfo = provider(
    doc = "The value of a Tile build flag.",
    fields = {"value": "string or bool"},
)
