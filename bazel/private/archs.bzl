"""The architecture grammar, at analysis time.

Accepts what CMake, nvcc, PyTorch and rules_cuda users write, in one list or string separated by `,`, `;` or blanks:

    90  90a  10.0  10.0+PTX  sm_90  sm_90a  compute_120  90-real  120-virtual  all  all-major
    compute_80:sm_80,sm_86;compute_90:sm_90          (the spelling of @rules_cuda//cuda:archs)

Result: struct(real = ["90a"], virtual = ["120"], cpu = False), without duplicates, in ascending order. A real
architecture becomes an ELF entry of the container, a virtual one its forward-compatible entry. A bare number means both,
as in CMake. The word `cpu` asks for code for the processor of the target platform, beside GPUs or alone.
`native` is refused: an action that asked for the machine's GPU could be neither cached nor run elsewhere.
"""

load("//private:arch_table.bzl", "FIRST_A", "FIRST_F", "WITHOUT_TILE")

_PREFIXES = ("sm_", "compute_", "lto_")

def _number(text):
    """Returns (digits, suffix) of '90', '90a', '9.0', '10.0f', or None when it is no architecture."""
    suffix = ""
    if text and text[-1] in ("a", "f"):
        suffix = text[-1]
        text = text[:-1]
    if text.count(".") == 1:
        major, minor = text.split(".")
        if not major.isdigit() or len(minor) != 1 or not minor.isdigit():
            return None
        text = major + minor
    if not text.isdigit() or len(text) not in (2, 3) or text[0] == "0":
        return None
    if (suffix == "a" and int(text) < FIRST_A) or (suffix == "f" and int(text) < FIRST_F):
        return None
    return (text, suffix)

def _key(arch):
    digits = arch.rstrip("af")
    return ("0000" + digits)[-4:] + arch[len(digits):]

def _ascending(archs):
    return sorted({arch: None for arch in archs}.keys(), key = _key)

def _majors(supported):
    """Returns the lowest supported architecture of each generation from 80 on, the way nvcc's all-major reads."""
    lowest = {}
    for arch in sorted(supported, key = _key):
        if int(arch) >= 80:
            lowest.setdefault(arch[:-1], arch)
    return lowest.values()

def _tokens(spec):
    for separator in (";", ",", "\n", "\t"):
        spec = spec.replace(separator, " ")
    return [token for token in spec.split(" ") if token]

def _expand(token, supported):
    """Returns struct(real, virtual, error) of one word."""
    if token in ("all", "all-major"):
        real = supported if token == "all" else _majors(supported)
        highest = sorted(_majors(supported), key = _key)[-1:]
        return struct(real = list(real), virtual = highest, error = None)
    if token == "native":
        return struct(real = [], virtual = [], error = "'native' asks for the GPU of one machine; name the architecture")
    want_real = True
    want_virtual = True
    text = token
    if text.endswith("+PTX"):
        text = text[:-4]
    elif text.endswith("-real"):
        text = text[:-5]
        want_virtual = False
    elif text.endswith("-virtual"):
        text = text[:-8]
        want_real = False
    elif text.count(".") == 1:
        want_virtual = False
    for prefix in _PREFIXES:
        if text.startswith(prefix):
            text = text[len(prefix):]
            want_real = prefix == "sm_"
            want_virtual = not want_real or token.endswith("+PTX")
            break
    number = _number(text)
    if number == None:
        return struct(real = [], virtual = [], error = "'%s' is no architecture (examples: 90, sm_90a, compute_120, 10.0+PTX)" % token)
    arch = number[0] + number[1]
    if number[0] not in supported and int(number[0]) not in WITHOUT_TILE:
        return struct(real = [], virtual = [], error = "'%s' is no architecture that exists or is supported" % token)
    return struct(real = [arch] if want_real else [], virtual = [arch] if want_virtual else [], error = None)

def _rules_cuda_tokens(group):
    """Returns the words of one 'compute_80:sm_80,sm_86' group; its left side only names the frontend's target."""
    left, _, right = group.rpartition(":")
    left = left.strip()
    words = _tokens(right)
    if not left.startswith("compute_") or _number(left[len("compute_"):]) == None or not words:
        return [group.strip()]  # no such group: refused as a word
    return words

def normalize_archs(spec, supported):
    """Returns struct(real, virtual, cpu, dropped, error) of an architecture specification.

    Args:
      spec: string, or list of strings.
      supported: plain numbers ('90') that the compiler can target.

    Returns:
      struct. `dropped` are well-formed words that the compiler cannot target; `error` is a text or None.
    """
    words = []
    for item in spec if type(spec) == "list" else [spec]:
        for group in item.split(";"):
            words += _rules_cuda_tokens(group) if ":" in group else _tokens(group)
    if not words:
        return struct(real = [], virtual = [], cpu = False, dropped = [], error = "no architecture is set")
    cpu = "cpu" in words
    real, virtual, dropped = [], [], []
    for word in words:
        if word == "cpu":
            continue
        one = _expand(word, supported)
        if one.error:
            return struct(real = [], virtual = [], cpu = cpu, dropped = [], error = one.error)
        for arch in one.real:
            (real if arch.rstrip("af") in supported else dropped).append(arch)
        for arch in one.virtual:
            (virtual if arch.rstrip("af") in supported else dropped).append(arch)
    result = struct(real = _ascending(real), virtual = _ascending(virtual), cpu = cpu, dropped = _ascending(dropped), error = None)
    if not real and not virtual and not cpu:
        return struct(
            real = [],
            virtual = [],
            cpu = False,
            dropped = result.dropped,
            error = "none of %s can be targeted; supported: %s" % (", ".join(result.dropped), ", ".join(supported)),
        )
    return result
