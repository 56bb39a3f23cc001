"""Build settings behind `@tileiras//tile:*`, and the transition that the `archs` attribute and parents use."""

load("@tileiras_compat//:settings.bzl", "CUDA_ARCHS_FLAG")
load("//:providers.bzl", "TileFlagInfo")

ARCHS_FLAG = str(Label("//tile:archs"))

def _string_impl(ctx):
    value = ctx.build_setting_value
    if ctx.attr.values and value not in ctx.attr.values:
        fail("%s: '%s' is not one of %s" % (ctx.label, value, ", ".join(["'%s'" % v for v in ctx.attr.values])))
    return [TileFlagInfo(value = value)]

tile_string_flag = rule(
    implementation = _string_impl,
    build_setting = config.string(flag = True),
    attrs = {"values": attr.string_list(doc = "Allowed values; empty: any.")},
    doc = "A string build setting of the Tile rules.",
)

# The flag //tile:archs is such a setting; a project may define more and switch between them by alias.
tile_archs = tile_string_flag

def _bool_impl(ctx):
    return [TileFlagInfo(value = ctx.build_setting_value)]

tile_bool_flag = rule(
    implementation = _bool_impl,
    build_setting = config.bool(flag = True),
    doc = "A boolean build setting of the Tile rules.",
)

def _archs_transition_impl(settings, attr):
    # A select() in `archs` is not known yet here; the rule reads it itself.
    wanted = getattr(attr, "archs", None)
    if type(wanted) == "list" and wanted:
        return {ARCHS_FLAG: ";".join(wanted)}
    current = settings[ARCHS_FLAG]
    if not current and CUDA_ARCHS_FLAG:
        current = str(settings[CUDA_ARCHS_FLAG])
    return {ARCHS_FLAG: current}

tile_archs_transition = transition(
    implementation = _archs_transition_impl,
    inputs = [ARCHS_FLAG] + ([CUDA_ARCHS_FLAG] if CUDA_ARCHS_FLAG else []),
    outputs = [ARCHS_FLAG],
)

ALLOWLIST = {
    "_allowlist_function_transition": attr.label(
        default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
    ),
}

FLAGS = dict(
    ALLOWLIST,
    # Read through the transition: it is what knows the value that rules_cuda's flag lends to an empty one.
    _archs = attr.label(default = "//tile:archs", cfg = tile_archs_transition, providers = [TileFlagInfo]),
    _compiler = attr.label(default = "//tile:compiler", providers = [TileFlagInfo]),
    _debug = attr.label(default = "//tile:debug", providers = [TileFlagInfo]),
    _launch_abi = attr.label(default = "//tile:launch_abi", providers = [TileFlagInfo]),
    _opt_level = attr.label(default = "//tile:opt_level", providers = [TileFlagInfo]),
    _worker = attr.label(default = "//tile:worker", providers = [TileFlagInfo]),
)

def flag(ctx, name):
    """Returns the value of the flag //tile:<name>."""
    target = getattr(ctx.attr, "_" + name)
    return (target[0] if type(target) == "list" else target)[TileFlagInfo].value
