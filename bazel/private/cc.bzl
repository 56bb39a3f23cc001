"""CcInfo for generated C and C++: compiled and linked like any cc_library."""

load("@tileiras_compat//:cc.bzl", "CC_TOOLCHAINS", "CcInfo", "cc_common", "find_cc_toolchain")
load("//private:compile.bzl", "host_platform")

CC_ATTRS = {
    "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
}

RULE_CC_TOOLCHAINS = CC_TOOLCHAINS

def build_cc(ctx, name, sources, headers, deps, data_inputs, include_root, include_files, link_flags = []):
    """Compiles and archives generated sources.

    Args:
      ctx: rule context with `include_prefix`, `strip_include_prefix`, `defines`, `alwayslink`, `linkstatic`.
      name: of the library.
      sources: generated C or C++ files.
      headers: generated headers, public.
      deps: targets with CcInfo.
      data_inputs: files that the sources pull in other than by #include (an image behind .incbin).
      include_root: a further -isystem folder for the generated code, or "".
      include_files: depset of the files below it.
      link_flags: for consumers, beside the rule's own.

    Returns:
      struct(info = CcInfo, files = libraries).
    """
    toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    contexts = [dep[CcInfo].compilation_context for dep in deps]
    linking = [dep[CcInfo].linking_context for dep in deps]
    contexts.append(cc_common.create_compilation_context(
        headers = depset(data_inputs, transitive = [include_files]),
        system_includes = depset([include_root] if include_root else []),
        defines = depset(ctx.attr.defines),
    ))
    context, outputs = cc_common.compile(
        name = name,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        srcs = sources,
        public_hdrs = headers,
        include_prefix = ctx.attr.include_prefix,
        strip_include_prefix = ctx.attr.strip_include_prefix,
        compilation_contexts = contexts,
    )
    libraries = []
    link_context = None
    if outputs.objects or outputs.pic_objects:
        link_context, linked = cc_common.create_linking_context_from_compilation_outputs(
            name = name,
            actions = ctx.actions,
            feature_configuration = features,
            cc_toolchain = toolchain,
            compilation_outputs = outputs,
            linking_contexts = linking,
            alwayslink = ctx.attr.alwayslink,
            disallow_dynamic_library = ctx.attr.linkstatic,
            # The loader opens the driver at run time; before glibc 2.34 that is a library of its own.
            user_link_flags = ctx.attr.linkopts + link_flags + (["-ldl"] if host_platform(ctx).os == "linux" else []),
        )
        library = linked.library_to_link
        for file in (library.static_library, library.pic_static_library, library.dynamic_library) if library else ():
            if file:
                libraries.append(file)
    own = CcInfo(compilation_context = context, linking_context = link_context)
    merged = cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = [dep[CcInfo] for dep in deps])
    return struct(info = merged, files = libraries)
