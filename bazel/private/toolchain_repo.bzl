"""The repository of one toolchain: `bin` starts the build command, `site` holds the package, `toolkit` NVIDIA's tools.

Three ways to fill it:

- `tile_local_toolchain`: links to this machine's package and toolkit; marked as not hermetic.
- `tile_wheel_toolchain`: the package's and NVIDIA's wheels, by URL and digest.
- `tile_redist_toolchain`: the package's wheel, and NVIDIA's archives named by a redistrib JSON file.

Nothing is fetched before a target needs the toolchain: the hub repository names this one by label only.
"""

# What actions run or read of a toolkit. The rest of it (headers, profilers, nvcc) would only slow sandboxes down.
# attribute of tile_toolchain -> places below the root; wheels and installers lay libnvvm out differently.
_TOOLS = {
    "fatbinary": ["bin/fatbinary"],
    "libnvvm": ["lib/libnvvm.so.4", "nvvm/lib64/libnvvm.so", "nvvm/lib64/libnvvm.so.4"],
    "nvdisasm": ["bin/nvdisasm"],
    "nvidia_compiler": ["bin/tileiras"],
    "ptxas": ["bin/ptxas"],
}
_SUPPORT = ["bin/cuobjdump", "bin/tileirdisasm", "nvvm/libdevice/libdevice.10.bc", "version.json"]
_FILES = [path for paths in _TOOLS.values() for path in paths] + _SUPPORT

_WHEELS = {
    "nvidia-cuda-cuobjdump": "cuda_cuobjdump",
    "nvidia-cuda-nvcc": "cuda_nvcc",
    "nvidia-cuda-nvdisasm": "cuda_nvdisasm",
    "nvidia-cuda-tileiras": "cuda_tileiras",
    "nvidia-nvvm": "libnvvm",
}
_REDIST = ["cuda_nvcc", "cuda_nvdisasm", "cuda_tileiras", "libnvvm"]

_PYTHON_PROBE = "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])"

def _fail(repository_ctx, text):
    fail("@%s: %s" % (repository_ctx.name, text))

def _find_python(repository_ctx):
    """Returns the absolute path of an interpreter: attribute, TILEIRAS_PYTHON, then python3 on PATH."""
    candidate = repository_ctx.attr.python or repository_ctx.os.environ.get("TILEIRAS_PYTHON", "")
    found = candidate or repository_ctx.which("python3") or repository_ctx.which("python")
    if not found:
        _fail(repository_ctx, "no python3 on PATH; name one by `python` or TILEIRAS_PYTHON")

    # A version manager's python3 is a script that reads PATH, which actions do not have: ask it who it is.
    result = repository_ctx.execute([found, "-I", "-c", _PYTHON_PROBE])
    lines = result.stdout.strip().split("\n")
    if result.return_code or len(lines) != 2:
        _fail(repository_ctx, "'%s' is no usable Python: %s" % (found, result.stderr.strip()))
    major, minor = lines[1].split(".")
    if (int(major), int(minor)) < (3, 10):
        _fail(repository_ctx, "'%s' is Python %s; tileiras needs 3.10 or newer" % (found, lines[1]))
    return lines[0]

def _write_tool(repository_ctx, python):
    repository_ctx.template(
        "bin/tile-build",
        repository_ctx.attr._launcher,
        {"%{python}": python},
        executable = True,
    )
    repository_ctx.template("bin/tile_build.py", repository_ctx.attr._main, {}, executable = False)

def _write_build(repository_ctx, comment, version, fingerprint, hermetic):
    labels = ""
    for attribute, paths in sorted(_TOOLS.items()):
        present = [path for path in paths if repository_ctx.path("toolkit/" + path).exists]
        if present:
            labels += "    %s = \"toolkit/%s\",\n" % (attribute, present[0])
    repository_ctx.template("BUILD.bazel", repository_ctx.attr._build, {
        "%{comment}": comment,
        "%{fingerprint}": fingerprint,
        "%{hermetic}": str(hermetic),
        "%{labels}": labels,
        "%{version}": version,
    }, executable = False)
    repository_ctx.file("WORKSPACE", "", executable = False)

def _package_folder(repository_ctx):
    """Returns the folder of the tileiras package that these rules belong to: one release, never two."""
    if repository_ctx.attr.package:
        return repository_ctx.path(repository_ctx.attr.package)
    rules = repository_ctx.path(repository_ctx.attr._module).realpath.dirname
    for candidate in (rules.dirname, rules.dirname.get_child("tileiras")):
        if candidate.get_child("tools").get_child("worker.py").exists:
            return candidate
    _fail(repository_ctx, "these rules do not lie in a tileiras package; name its folder by `package`")
    return None

def _local_impl(repository_ctx):
    python = _find_python(repository_ctx)
    package = _package_folder(repository_ctx)
    _write_tool(repository_ctx, python)
    repository_ctx.symlink(package, "site/tileiras")
    root = repository_ctx.attr.path or repository_ctx.os.environ.get("TILEIRAS_TOOLKIT_ROOT", "")

    # The one resolver: it knows wheels, conda, CUDA_PATH, PATH and the default prefixes.
    command = [python, "-I", "-S", "-B", repository_ctx.path("bin/tile_build.py"), "bazel-toolchain"]
    if root:
        command += ["--toolkit-root", root]
    result = repository_ctx.execute(command, environment = {"TILEIRAS_CACHE": "0"})
    if result.return_code:
        _fail(repository_ctx, result.stderr.strip() or "the resolver failed with code %d" % result.return_code)
    answer = json.decode(result.stdout)
    for text in answer["warnings"]:
        # buildifier: disable=print
        print("@%s: %s" % (repository_ctx.name, text))
    if answer["root"]:
        for path in _FILES:
            source = repository_ctx.path(answer["root"] + "/" + path)
            if source.exists:
                repository_ctx.symlink(source, "toolkit/" + path)
    _write_build(
        repository_ctx,
        comment = "Links to %s (%s). Not hermetic: it names paths of this machine." % (answer["root"] or "no toolkit", answer["how"]),
        version = answer["version"],
        fingerprint = answer["fingerprint"],
        hermetic = False,
    )

_COMMON = {
    "package": attr.string(doc = "Folder of the tileiras package; default: the one that these rules came with."),
    "python": attr.string(doc = "Python interpreter; default: TILEIRAS_PYTHON, then python3 on PATH."),
    "_build": attr.label(default = "//private:toolchain.BUILD.tpl"),
    "_launcher": attr.label(default = "//private:launcher.sh.tpl"),
    "_main": attr.label(default = "//private:tile_build.py"),
    "_module": attr.label(default = "//:MODULE.bazel"),
}

tile_local_toolchain = repository_rule(
    implementation = _local_impl,
    attrs = dict(
        _COMMON,
        path = attr.string(doc = "Root of a CUDA toolkit; default: what the resolver finds."),
    ),
    environ = [
        "CONDA_PREFIX",
        "CUDA_HOME",
        "CUDA_PATH",
        "PATH",
        "TILEIRAS_PYTHON",
        "TILEIRAS_TOOLKIT_ROOT",
    ],
    local = True,
    configure = True,
    doc = "A toolchain of this machine's tools.",
)

def _fetch_package(repository_ctx):
    """Puts the tileiras package into site/: its own wheel when one is named, else the one the rules came with."""
    if repository_ctx.attr.tileiras_url:
        repository_ctx.download_and_extract(
            url = repository_ctx.attr.tileiras_url,
            output = "site",
            sha256 = repository_ctx.attr.tileiras_sha256,
            type = "zip",
        )
        return

    # A copy: a link would lead out of the repository, and with it out of the action's input tree.
    source = _package_folder(repository_ctx)
    repository_ctx.execute(["mkdir", "-p", "site"])
    copied = repository_ctx.execute(["cp", "-R", "-L", str(source), "site/tileiras"])
    if copied.return_code:
        _fail(repository_ctx, copied.stderr)
    for folder in ("bazel", "cmake"):
        repository_ctx.delete("site/tileiras/" + folder)

def _version_json(components):
    """Returns the text of a toolkit's version.json: wheels have none, and the resolver reads versions there."""
    table = {name: {"name": name, "version": version} for name, version in components.items()}
    return json.encode_indent(table) + "\n"

def _wheel_impl(repository_ctx):
    attr = repository_ctx.attr
    if not attr.urls:
        _fail(repository_ctx, "urls: one entry per NVIDIA wheel (%s)" % ", ".join(sorted(_WHEELS)))
    components = {}
    for name, url in sorted(attr.urls.items()):
        if name not in _WHEELS:
            _fail(repository_ctx, "urls: '%s' is not one of %s" % (name, ", ".join(sorted(_WHEELS))))
        if name not in attr.sha256s:
            _fail(repository_ctx, "sha256s has no digest for '%s'" % name)
        repository_ctx.download_and_extract(url = url, output = "wheels/" + name, sha256 = attr.sha256s[name], type = "zip")
        for folder in ("nvidia/cu13", "nvidia/cuda_nvcc"):
            if repository_ctx.path("wheels/%s/%s" % (name, folder)).exists:
                _adopt(repository_ctx, "wheels/%s/%s" % (name, folder))
        words = url.split("/")[-1].split("-")
        components[_WHEELS[name]] = words[1] if len(words) > 1 else attr.version
    _finish(repository_ctx, components, "NVIDIA's wheels of release %s" % attr.version, attr.version)

def _adopt(repository_ctx, folder):
    """Moves the files that actions need into toolkit/, with the executable bit that zip archives lose."""
    for path in _FILES:
        source = repository_ctx.path(folder + "/" + path)
        if source.exists:
            target = "toolkit/" + path
            repository_ctx.execute(["mkdir", "-p", str(repository_ctx.path(target).dirname)])
            moved = repository_ctx.execute(["mv", str(source), str(repository_ctx.path(target))])
            if moved.return_code:
                _fail(repository_ctx, moved.stderr)
            if path.startswith("bin/"):
                repository_ctx.execute(["chmod", "+x", str(repository_ctx.path(target))])

def _finish(repository_ctx, components, source, version):
    _fetch_package(repository_ctx)
    _write_tool(repository_ctx, repository_ctx.attr.python or "/usr/bin/python3")
    repository_ctx.delete("wheels")
    repository_ctx.delete("archives")
    repository_ctx.file("toolkit/version.json", _version_json(components), executable = False)
    _write_build(
        repository_ctx,
        comment = "Fetched: " + source,
        version = ".".join(version.split(".")[:2]),
        fingerprint = " ".join(["%s-%s" % item for item in sorted(components.items())]),
        hermetic = True,
    )

_FETCHED = dict(
    _COMMON,
    sha256s = attr.string_dict(doc = "Digest of each download."),
    tileiras_sha256 = attr.string(),
    tileiras_url = attr.string(doc = "Wheel of tileiras; default: the package that these rules came with."),
    version = attr.string(mandatory = True, doc = "Release, such as 13.4.92."),
)

tile_wheel_toolchain = repository_rule(
    implementation = _wheel_impl,
    attrs = dict(
        _FETCHED,
        urls = attr.string_dict(doc = "Name of each NVIDIA wheel -> URL (https: or file:)."),
    ),
    doc = "A toolchain of NVIDIA's wheels.",
)

def _redist_impl(repository_ctx):
    attr = repository_ctx.attr
    repository_ctx.download(url = attr.json_url, output = "redistrib.json", sha256 = attr.sha256s.get("redistrib.json", ""))
    index = json.decode(repository_ctx.read("redistrib.json"))
    base = attr.json_url[:attr.json_url.rindex("/") + 1]
    components = {}
    for name in _REDIST:
        entry = index.get(name)
        if not entry or attr.platform not in entry:
            if name == "cuda_nvcc":
                _fail(repository_ctx, "%s has no cuda_nvcc for %s" % (attr.json_url, attr.platform))
            continue
        archive = entry[attr.platform]
        repository_ctx.download_and_extract(
            url = base + archive["relative_path"],
            output = "archives/" + name,
            sha256 = archive["sha256"],
            stripPrefix = archive["relative_path"].split("/")[-1].replace(".tar.xz", "").replace(".tar.gz", "").replace(".zip", ""),
        )
        _adopt(repository_ctx, "archives/" + name)
        components[name] = entry["version"]
    _finish(repository_ctx, components, attr.json_url, attr.version)

tile_redist_toolchain = repository_rule(
    implementation = _redist_impl,
    attrs = dict(
        _FETCHED,
        json_url = attr.string(mandatory = True, doc = "URL of redistrib_<version>.json; archives lie below its folder."),
        platform = attr.string(default = "linux-x86_64"),
    ),
    doc = "A toolchain of NVIDIA's redistributable archives.",
)
