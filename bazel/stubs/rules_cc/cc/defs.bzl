"""Stand-in for rules_cc on Bazel 4 without a network: its rules are the built-in ones.

Bazel 4's own tools load this repository while they resolve toolchains, even for a build without any C++. Use:

    build --override_repository=rules_cc=<tileiras>/bazel/stubs/rules_cc
    build --override_repository=rules_java=<tileiras>/bazel/stubs/rules_java
"""

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
objc_import = native.objc_import
objc_library = native.objc_library
