"""Options of the Tile rules; written by scripts/option_pages.py from tileiras/settings.py."""

CODE_OPTIONS = dict(
    bytecode_version = attr.string(doc = "Version of the bytecode that is exported, handed on and written."),
    compiler = attr.string(values = ["", "builtin", "nvidia"], doc = "Which compiler makes the images; default --@tileiras//tile:compiler."),
    copts = attr.string_list(doc = "Passed to the Tile compiler as they are."),
    debug = attr.bool(doc = "Debug information, optimisation level 0; default --@tileiras//tile:debug."),
    entries = attr.string_list(doc = "Kernels that must be there, and the only ones in the table; of a .py source: what to export."),
    launch_abi = attr.string(values = ["", "tile", "simt"], doc = "How a kernel is launched: tile (block 1) or simt (explicit block); NVIDIA's compiler makes tile; default --@tileiras//tile:launch_abi."),
    lineinfo = attr.bool(doc = "Line tables for profilers."),
    max_registers = attr.int(doc = "Fail when a kernel uses more registers per thread (0: any number)."),
    max_shared = attr.string(doc = "Fail when a kernel uses more shared memory: bytes or 100K."),
    no_spills = attr.bool(doc = "Fail when a kernel spills registers to memory."),
    opt_level = attr.int(default = -1, values = [-1, 0, 1, 2, 3], doc = "Optimisation level, 0 to 3; default --@tileiras//tile:opt_level (-1: not said)."),
    ptxasopts = attr.string_list(doc = "Passed to ptxas as they are."),
    remarks = attr.string(values = ["", "none", "all", "memory", "tensorcore"], doc = "Category of optimisation remarks."),
    report = attr.string(values = ["", "html", "json"], doc = "A report of each image, which explains the compile."),
    sanitize = attr.string(values = ["", "memcheck"], doc = "Instrument for a sanitizer tool."),
    signature = attr.string(doc = "The signature to export (cuTile Python sources)."),
    tensor_maps = attr.string(values = ["", "none", "launcher"], doc = "Who encodes descriptors for bulk tensor copies; launcher: kernels take them as hidden parameters; default none."),
)

LIBRARY_OPTIONS = dict(
    archs = attr.string_list(doc = "Architectures: GPUs in any spelling (sm_90, 100-virtual, 9.0+PTX, all), cpu for the host's processor; default --@tileiras//tile:archs."),
    compress = attr.string(values = ["", "default", "size", "speed", "balance", "none"], doc = "Compression of the fatbin."),
    embed = attr.string(default = "array", values = ["array", "incbin", "none"], doc = "How the image gets into the object."),
    formats = attr.string_list(default = ["cubin", "fatbin", "header", "json"], doc = "Files that are made or installed: cubin, fatbin, header, json, ptx, remarks, report, tilebc."),
    language = attr.string(default = "C", values = ["C", "CXX"], doc = "Language of the generated source."),
    namespace = attr.string(doc = "C++ namespace of the header."),
    prefix = attr.string(doc = "Prefix of the C symbols; default from the name of the target or source."),
)

FORMATS = ["cubin", "fatbin", "header", "json", "ptx", "remarks", "report", "tilebc"]
