"""The front door: `load("@tileiras//:defs.bzl", "tile_library", ...)`. This file only re-exports."""

load("//:providers.bzl", _TileInfo = "TileInfo", _TileToolchainInfo = "TileToolchainInfo")
load("//:toolchain.bzl", _tile_toolchain = "tile_toolchain", _tile_toolchain_info = "tile_toolchain_info")
load(
    "//private:artifacts.bzl",
    _tile_cubin = "tile_cubin",
    _tile_fatbin = "tile_fatbin",
    _tile_kernels_json = "tile_kernels_json",
)
load(
    "//private:aspects.bzl",
    _tile_collect_aspect = "tile_collect_aspect",
    _tile_compdb_aspect = "tile_compdb_aspect",
    _tile_size_aspect = "tile_size_aspect",
)
load("//private:flags.bzl", _tile_archs = "tile_archs", _tile_archs_transition = "tile_archs_transition")
load("//private:library.bzl", _tile_configured = "tile_configured", _tile_library = "tile_library")
load("//private:tests.bzl", _tile_golden_test = "tile_golden_test", _tile_test = "tile_test")

TileInfo = _TileInfo
TileToolchainInfo = _TileToolchainInfo
tile_archs = _tile_archs
tile_archs_transition = _tile_archs_transition
tile_collect_aspect = _tile_collect_aspect
tile_compdb_aspect = _tile_compdb_aspect
tile_configured = _tile_configured
tile_cubin = _tile_cubin
tile_fatbin = _tile_fatbin
tile_golden_test = _tile_golden_test
tile_kernels_json = _tile_kernels_json
tile_library = _tile_library
tile_size_aspect = _tile_size_aspect
tile_test = _tile_test
tile_toolchain = _tile_toolchain
tile_toolchain_info = _tile_toolchain_info
