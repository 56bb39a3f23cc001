"""Rules of other languages under one name for every Bazel: built in up to 7, of rules_cc and friends from 8 on.

A BUILD file that loads them from here is read by all of them. Your own project may as well load rules_cc itself.
"""

load(
    "@tileiras_compat//:rules.bzl",
    _cc_binary = "cc_binary",
    _cc_library = "cc_library",
    _cc_test = "cc_test",
    _py_binary = "py_binary",
    _py_library = "py_library",
    _py_test = "py_test",
    _sh_binary = "sh_binary",
    _sh_test = "sh_test",
)

cc_binary = _cc_binary
cc_library = _cc_library
cc_test = _cc_test
py_binary = _py_binary
py_library = _py_library
py_test = _py_test
sh_binary = _sh_binary
sh_test = _sh_test
