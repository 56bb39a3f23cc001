"""Two small generated repositories: the toolchain declarations, and what differs between Bazel releases."""

_HUB = """# Declarations only: the tools are fetched when a target needs them.

package(default_visibility = ["//visibility:public"])

config_setting(
    name = "use_any",
    flag_values = {"@tileiras//tile:toolkit": ""},
)
"""

_TOOLCHAIN = """
config_setting(
    name = "use_{name}",
    flag_values = {{"@tileiras//tile:toolkit": "{name}"}},
)

toolchain(
    name = "{order}_{name}_chosen",
    exec_compatible_with = {exec_constraints},
    target_settings = [":use_{name}"],
    toolchain = "@{repo}//:toolchain",
    toolchain_type = "@tileiras//tile:toolchain_type",
)
"""

_DEFAULT = """
toolchain(
    name = "{order}_{name}",
    exec_compatible_with = {exec_constraints},
    target_settings = [":use_any"],
    toolchain = "@{repo}//:toolchain",
    toolchain_type = "@tileiras//tile:toolchain_type",
)
"""

def _version_key(version):
    """Returns a string that sorts as the version does, so that the highest comes last."""
    return ".".join([("0000" + part)[-4:] if part.isdigit() else part for part in version.split(".")])

def _hub_impl(repository_ctx):
    lines = [_HUB]
    names = [(_version_key(entry.split("|")[1]), entry) for entry in repository_ctx.attr.toolchains]
    highest_first = [entry for _, entry in sorted(names, reverse = True)]
    for order, entry in enumerate(highest_first):
        repo, name, exec_constraints = entry.split("|")
        constraints = json.encode([c for c in exec_constraints.split(",") if c])
        values = dict(
            exec_constraints = constraints,
            name = name,
            order = ("00" + str(order))[-3:],
            repo = repo,
        )
        lines.append(_TOOLCHAIN.format(**values))
        lines.append(_DEFAULT.format(**values))
    repository_ctx.file("BUILD.bazel", "".join(lines), executable = False)
    repository_ctx.file("WORKSPACE", "", executable = False)

tile_hub = repository_rule(
    implementation = _hub_impl,
    attrs = {
        "toolchains": attr.string_list(doc = "'repository|version or name|exec constraints' of each toolchain."),
    },
    doc = "Declares toolchains; the highest version comes first, so it wins unless --@tileiras//tile:toolkit names another.",
)

def _major(repository_ctx):
    """Returns Bazel's major version. Debian's builds report none; they are 4 and 7."""
    version = repository_ctx.attr.bazel_version
    digits = version.split(".")[0]
    return int(digits) if digits.isdigit() else 7

# A file cannot export a global under its own name, hence the detour by native.bzl for Bazel before 8.
_NATIVE = """native_CcInfo = CcInfo
native_PyInfo = PyInfo
native_cc_common = cc_common
"""

_CC = """# How this Bazel spells C++ interoperation.
{loads}

CC_TOOLCHAINS = ["@bazel_tools//tools/cpp:toolchain_type"]
CcInfo = _CcInfo
cc_common = _cc_common
find_cc_toolchain = _find_cc_toolchain
"""

_CC_LOADS = {
    "native": """load("@bazel_tools//tools/cpp:toolchain_utils.bzl", _find_cc_toolchain = "find_cpp_toolchain")
load(":native.bzl", _CcInfo = "native_CcInfo", _cc_common = "native_cc_common")""",
    "rules": """load("@rules_cc//cc:find_cc_toolchain.bzl", _find_cc_toolchain = "find_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", _cc_common = "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", _CcInfo = "CcInfo")""",
}

_PY = """# How this Bazel spells the provider of Python libraries.
{loads}

PyInfo = _PyInfo
"""

_PY_LOADS = {
    "native": "load(\":native.bzl\", _PyInfo = \"native_PyInfo\")",
    "rules": "load(\"@rules_python//python:py_info.bzl\", _PyInfo = \"PyInfo\")",
}

_RUNFILES = """{loads}
py_library(
    name = "runfiles",
    srcs = ["tileiras_bazel.py"],
    imports = ["."],
    visibility = ["//visibility:public"],
)
"""

_RULE_LOADS = """load("@rules_cc//cc:defs.bzl", _cc_binary = "cc_binary", _cc_library = "cc_library", _cc_test = "cc_test")
load("@rules_python//python:defs.bzl", _py_binary = "py_binary", _py_library = "py_library", _py_test = "py_test")
load("@rules_shell//shell:sh_binary.bzl", _sh_binary = "sh_binary")
load("@rules_shell//shell:sh_test.bzl", _sh_test = "sh_test")

"""

_RULES = ["cc_binary", "cc_library", "cc_test", "py_binary", "py_library", "py_test", "sh_binary", "sh_test"]

def _compat_impl(repository_ctx):
    kind = "rules" if _major(repository_ctx) >= 8 else "native"
    prefix = "_" if kind == "rules" else "native."
    rules = _RULE_LOADS if kind == "rules" else ""
    rules += "".join(["%s = %s%s\n" % (name, prefix, name) for name in _RULES])
    files = {
        "BUILD.bazel": "",
        "WORKSPACE": "",
        "cc.bzl": _CC.format(loads = _CC_LOADS[kind]),
        "py.bzl": _PY.format(loads = _PY_LOADS[kind]),
        "rules.bzl": rules,
        "settings.bzl": "CUDA_ARCHS_FLAG = \"%s\"\n" % repository_ctx.attr.cuda_archs_flag,
    }
    if kind == "native":
        files["native.bzl"] = _NATIVE
    files["runfiles/BUILD.bazel"] = _RUNFILES.format(
        loads = "load(\"@rules_python//python:defs.bzl\", \"py_library\")\n" if kind == "rules" else "",
    )
    repository_ctx.symlink(repository_ctx.attr._locator, "runfiles/tileiras_bazel.py")
    for path, text in files.items():
        repository_ctx.file(path, text, executable = False)

tile_compat = repository_rule(
    implementation = _compat_impl,
    attrs = {
        "bazel_version": attr.string(doc = "native.bazel_version of the caller; empty in Debian's builds."),
        "_locator": attr.label(default = "//:__init__.py"),
        "cuda_archs_flag": attr.string(doc = "Label of @rules_cuda//cuda:archs, mirrored when //tile:archs is empty."),
    },
    doc = "What the core files load: providers and rules under the names of this Bazel release.",
)
