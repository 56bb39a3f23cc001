"""From cubins to what programs load: the container, and the generated header and source that embed it."""

load("//private:compile.bzl", "compile_for_cpu", "compile_source", "launch_abi", "run_tool", "tile_toolchain")

_TEXT_SUFFIXES = (".mlir", ".tileir")

def build_images(ctx, source, archs, stem = None):
    """Compiles one source for every architecture.

    A virtual architecture becomes a Tile IR entry when the images are launched as Tile kernels, else a PTX entry: the
    driver would compile Tile IR into an image that is launched otherwise than the rest.

    Args:
      ctx: rule context.
      source: struct of bytecode_sources().
      archs: struct(real, virtual, cpu).
      stem: base of the outputs' names; default: the source's folder and stem.

    Returns:
      struct(cubins, compiled, virtual, bytecode); `virtual` is a list of struct(kind, arch, file).
    """
    stem = stem or source.folder + source.stem
    tile_entries = archs.virtual and launch_abi(ctx) == "tile"
    text = source.file.basename.endswith(_TEXT_SUFFIXES)
    bytecode = None if text else source.file
    cubins = []
    virtual = []
    compiled = []
    for arch in archs.real:
        image = compile_source(ctx, source, arch, stem, bytecode = bytecode == None)
        bytecode = bytecode or image.bytecode
        cubins.append(image)
        compiled.append(image)
    for arch in archs.virtual:
        if not tile_entries:
            image = compile_source(ctx, source, arch, stem, bytecode = bytecode == None, virtual = True)
            bytecode = bytecode or image.bytecode
            compiled.append(image)
            virtual.append(struct(kind = "ptx", arch = image.arch, file = image.ptx))
            continue
        if not compiled:
            # Only Tile IR entries: one image verifies the source, writes its bytecode and knows its kernels.
            image = compile_source(ctx, source, arch, stem, bytecode = bytecode == None)
            bytecode = bytecode or image.bytecode
            compiled.append(image)
        virtual.append(struct(kind = "tileir", arch = "compute_" + arch, file = bytecode))
    if archs.cpu:
        compiled.append(compile_for_cpu(ctx, source, stem))
        if not bytecode:
            bytecode = ctx.actions.declare_file(stem + ".tilebc")
            run_tool(
                ctx,
                mnemonic = "TileBytecode",
                verb = "bytecode",
                arguments = ["-o", bytecode, source.file],
                inputs = source.declared,
                outputs = [bytecode],
                message = "Translating %s to bytecode" % source.file.short_path,
            )
    return struct(cubins = cubins, compiled = compiled, virtual = virtual, bytecode = bytecode)

def build_fatbin(ctx, out, images, compress = ""):
    """Registers the action that bundles images.

    Args:
      ctx: rule context.
      out: the container.
      images: list of struct(kind, arch, file).
      compress: mode, or empty for the tool's default.
    """
    arguments = ["-o", out]
    for image in images:
        arguments += ["--" + image.kind, struct_entry(image.arch, image.file)]
    if compress:
        arguments += ["--compress", compress]
    toolkit_root = tile_toolchain(ctx).toolkit_root
    if toolkit_root:
        arguments += ["--toolkit-root", toolkit_root]
    run_tool(
        ctx,
        mnemonic = "TileFatbin",
        verb = "fatbin",
        arguments = arguments,
        inputs = [image.file for image in images],
        outputs = [out],
        message = "Bundling %s" % out.short_path,
    )

def struct_entry(arch, file):
    """Returns 'sm_90=path'."""
    return "%s=%s" % (arch, file.path)

def image_entries(images):
    """Returns the container's entries of build_images()' result: real ones first, both in ascending order."""
    elf = [struct(kind = "elf", arch = cubin.arch, file = cubin.file) for cubin in images.cubins]
    return elf + images.virtual

def build_header(ctx, header, source, image, kernels, prefix):
    """Registers the action that writes the header and source for one image.

    Args:
      ctx: rule context.
      header: file to write.
      source: file to write.
      image: the container, None where there is code for the CPU alone.
      kernels: kernels.json of each architecture.
      prefix: of the C names.
    """
    arguments = ["--prefix", prefix]
    if ctx.attr.namespace:
        arguments += ["--namespace", ctx.attr.namespace]
    arguments += ["--language", ctx.attr.language]
    if image:
        arguments += ["--embed", ctx.attr.embed, "--image", image]
    for file in kernels:
        arguments += ["--json", file]
    arguments += ["--header-out", header, "--source-out", source]
    run_tool(
        ctx,
        mnemonic = "TileHeader",
        verb = "header",
        arguments = arguments,
        inputs = ([image] if image else []) + kernels,
        outputs = [header, source],
        message = "Generating %s" % header.short_path,
    )

def identifier(text):
    """Makes a C identifier: other characters become '_', as CMake's MAKE_C_IDENTIFIER does.

    Args:
      text: any string.

    Returns:
      string.
    """
    result = ""
    for char in text.elems():
        result += char if char.isalnum() and char <= "z" or char == "_" else "_"
    return "_" + result if result[:1].isdigit() else result
