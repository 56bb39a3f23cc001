"""What the driver says of options, names and inputs; loaded when one of them is to be said."""

from __future__ import annotations

from tileiras.diag import ERROR, REMARK, WARNING, WORD_CONFIG, WORD_ERROR, Diag

NO_TARGET = Diag(
    "DRV-0201", ERROR,
    "GPU architecture sm_0 is not supported by this version of tileiras. You may need a newer toolchain that "
    "supports this architecture (bytecode in file is version {version}).", "own", WORD_CONFIG,
)  # fmt: skip
"""
see: DRV-0501

  $ python k.py
  import tileiras

  code = tileiras.load("cuda_tile.module @m { entry @k() { return } }").to_bytecode()
- tileiras.compile(code, emit="ptx")
+ tileiras.compile(code, "sm_90", emit="ptx")
"""

UNSUPPORTED_TARGET = Diag(
    "DRV-0202", ERROR, "unsupported GPU target '{name}'", "driver-unsupported-gpu", WORD_CONFIG
)
"""
see: DRV-0501

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_91
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_OPT_LEVEL = Diag(
    "DRV-0203", ERROR, "invalid optimization level: {level}", "driver-invalid-opt-level", WORD_CONFIG
)
"""
cause: An option has a value that it does not take.
remedy: Use one of the values that the message or `tileiras --help` names.

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -O7
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -O3
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_HOST_OS = Diag(
    "DRV-0204", ERROR, "unsupported host operating system '{name}'", "driver-unsupported-host-os", WORD_CONFIG
)
"""
see: DRV-0203

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --host-os=plan9
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --host-os=linux
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_HOST_ARCH = Diag("DRV-0205", ERROR, "unsupported host architecture '{name}'", "driver", WORD_CONFIG)
"""
see: DRV-0203

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --host-arch=vax
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --host-arch=x86_64
  cuda_tile.module @m { entry @k() { return } }
"""

DEBUG_NEEDS_O0 = Diag(
    "DRV-0206", ERROR,
    "optimized debugging is currently not supported, change the optimization level to 0 or disable full debug info",
    "own", WORD_CONFIG,
)  # fmt: skip
"""
cause: Full debug information was asked for together with optimisation.
remedy: Add -O0, or take --lineinfo in place of --device-debug.

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -O3 --device-debug
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 -O0 --device-debug
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_ABI = Diag("DRV-0207", ERROR, "unknown launch ABI '{name}', expected tile or simt", "driver", WORD_CONFIG)
"""
see: DRV-0203

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --launch-abi=none
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --launch-abi=simt
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_SANITIZER = Diag(
    "DRV-0208", ERROR, "unsupported sanitizer '{name}', expected memcheck", "driver", WORD_CONFIG
)
"""
see: DRV-0203

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --sanitize=racecheck
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_PART = Diag(
    "DRV-0210", ERROR, "{place}: unknown part '{name}', expected {known}{near}", "driver", WORD_CONFIG
)
"""
cause: A setting names a part that does not exist, or is misspelled.
remedy: Use one of the names that the message lists.

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --disable=wmma
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --disable=wgmma
  cuda_tile.module @m { entry @k() { return } }
"""

BAD_REMARKS = Diag(
    "DRV-0214", ERROR,
    "unknown remarks {name}, expected none, all, memory or tensorcore, or one of these for each of passed, missed, failed and "
    "analysis", "driver", WORD_CONFIG,
)  # fmt: skip
"""
see: DRV-0203

  $ python k.py
  import tileiras

  code = tileiras.load("cuda_tile.module @m { entry @k() { return } }").to_bytecode()
- tileiras.compile(code, "sm_90", emit="ptx", remarks="everything")
+ tileiras.compile(code, "sm_90", emit="ptx", remarks="all")
"""

BAD_TENSOR_MAPS = Diag(
    "DRV-0211", ERROR, "unknown tensor maps '{name}', expected none or launcher", "driver", WORD_CONFIG
)
"""
see: DRV-0203

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --launch-abi=simt --tensor-maps=device
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --launch-abi=simt --tensor-maps=launcher
  cuda_tile.module @m { entry @k() { return } }
"""

MAPS_NEED_SIMT = Diag(
    "DRV-0212", ERROR,
    "tensor maps of the launcher are parameters that the launch ABI '{abi}' has no place for, use --launch-abi=simt",
    "driver", WORD_CONFIG,
)  # fmt: skip
"""
cause: Tensor maps that the launcher encodes are parameters behind those of the source. A kernel of the launch ABI
tile is launched by others, who know the parameters of the source only.
remedy: Add --launch-abi=simt and launch the kernel by a generated launcher or by `tileiras.launch`, or leave
--tensor-maps out.

- $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --tensor-maps=launcher
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90 --launch-abi=simt --tensor-maps=launcher
  cuda_tile.module @m { entry @k() { return } }
"""

NOT_INSTRUMENTED = Diag(
    "DRV-0507",
    WARNING,
    "--sanitize={name} instruments machine code; what --emit={emit} writes is not instrumented",
    "driver",
)
"""
cause: A sanitizer works on machine code, and none is written.
remedy: Write a cubin (--emit=cubin), or leave --sanitize out.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --sanitize=memcheck
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
  cuda_tile.module @m { entry @k() { return } }
"""

NEEDS_SHARED = Diag(
    "DRV-0503", ERROR,
    "kernel '{kernel}' needs {need} bytes of shared memory, {target} has at most {have} bytes for one block", "driver",
    WORD_ERROR,
)  # fmt: skip
'''
cause: The tiles that must be in shared memory at the same time do not fit one block of this GPU. Rings of copies become as
deep as there is room, and most exchanges go in rounds; a reduction or scan of many values between warps takes room for all of
them at once.
remedy: Reduce fewer values at a time, use smaller tiles or narrower element types, or a GPU with more shared memory.

  $ python k.py
  import tileiras

  def kernel(n):
      def each(text, between=", "):
          return between.join(text.format(k=k) for k in range(n))

      return f"""cuda_tile.module @m {{
    entry @k() {{
      %i = iota : tile<32768xi64>
      %v = reshape %i : tile<32768xi64> -> tile<256x128xi64>
      %r:{n} = reduce {each("%v")} dim=0 identities=[{each("0 : i64")}] : {each("tile<256x128xi64>")} -> {each("tile<128xi64>")}
      ({each("%a{k}: tile<i64>, %b{k}: tile<i64>")}) {{
        %s = addi %a0, %b0 : tile<i64>
        yield {each("%s")} : {each("tile<i64>")}
      }}
      print_tko "%i", %r#0 : tile<128xi64> -> token
      return
    }}
  }}"""

- tileiras.compile(kernel(17), "sm_75", emit="ptx")
+ tileiras.compile(kernel(8), "sm_75", emit="ptx")
'''

BAD_NAME = Diag(
    "DRV-0508",
    ERROR,
    "name '{name}' is no PTX identifier: letters, digits, _ and $, no digit first",
    "PTX ISA, identifiers",
    WORD_ERROR,
)
"""
cause: The name of a kernel or global is no PTX identifier, or one that PTX has taken.
remedy: Rename it: letters, digits, _ and $, no digit first, and no name of an instruction, register or directive.

  cuda_tile.module {
-   entry @"ä"() {
+   entry @"k9"() {

      return
    }
  }
"""

TAKEN_NAME = Diag(
    "DRV-0509",
    ERROR,
    "name '{name}' is taken in PTX: it is {what}; choose another name",
    "PTX ISA, identifiers",
    WORD_ERROR,
)
"""
see: DRV-0508

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
  cuda_tile.module @m {
- entry @vprintf() {
+ entry @print_sum() {
      return
    }
  }
"""

FAILED = Diag("DRV-0005", ERROR, "failed to compile Tile IR program", "driver", WORD_ERROR)
"""
cause: This line ends every failed compilation; the reason stands in the messages before it.
remedy: Read the first error above. When there is none, set TILEIRAS_TRACEBACK=1 and report what it shows.

in: kernel
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
-   nonsense
"""

WARNINGS = Diag("DRV-0506", ERROR, "warnings are treated as errors (--Werror)", "driver", WORD_ERROR)
"""
cause: There were warnings, and --Werror makes them errors.
remedy: Correct what the warnings above name, or compile without --Werror.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --sanitize=memcheck --Werror
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --Werror
  cuda_tile.module @m { entry @k() { return } }
"""

INTERNAL = Diag(
    "DRV-0505", ERROR, "internal error: {what} (a defect of tileiras: please report it; TILEIRAS_TRACEBACK=1 shows where)",
    "driver", WORD_ERROR,
)  # fmt: skip
"""
cause: The compiler broke a rule of its own. The kernel may be perfectly right.
remedy: Report it with the kernel, made small with `tileiras-reduce`, and with the output under
TILEIRAS_TRACEBACK=1. A lower -O level may avoid it meanwhile.

! An exception of the compiler itself: a defect. Whoever knows an input for it knows a bug, which is mended.
"""

FATAL = Diag("DRV-0504", ERROR, "{text}", "exit-fm-codegen-abort", WORD_ERROR)
"""
see: DRV-0505

! An invariant of the compiler does not hold: a defect. Whoever knows an input for it knows a bug, which is mended.
"""

SPILLED = Diag(
    "RegistersSpilled", REMARK,
    "registers ran out: {bytes} bytes are written to and {loaded} bytes read from local memory per thread", "ptxas",
    kind="missed", category="memory",
)  # fmt: skip
"""
cause: The kernel needs more registers for each thread than there are, so values travel through local memory.
remedy: Use smaller tiles or more warps, carry fewer tiles through loops, and load operands where they are used.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --remarks=all
  cuda_tile.module @m {
-   entry @k(%p: tile<ptr<f32>>) optimization_hints = <sm_90 = {occupancy = 16}> {
+   entry @k(%p: tile<ptr<f32>>) optimization_hints = <sm_90 = {occupancy = 4}> {
      %v = make_tensor_view %p, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
      %w = make_partition_view %v : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t = load_view_tko weak %w[%i, %i] : partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> tile<64x128xf32>, token
      %r = reduce %x dim=1 identities=[0xff800000 : f32] : tile<64x128xf32> -> tile<64xf32>
        (%a: tile<f32>, %b: tile<f32>) {
          %m = maxf %a, %b : tile<f32>
          yield %m : tile<f32>
        }
      %c = reshape %r : tile<64xf32> -> tile<64x1xf32>
      %d = broadcast %c : tile<64x1xf32> -> tile<64x128xf32>
      %y = subf %x, %d : tile<64x128xf32>
      %s = store_view_tko weak %y, %w[%i, %i] token = %t : tile<64x128xf32>, partition_view<tile=(64x128), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

RESOURCES = Diag(
    "KernelResources", REMARK, "{registers} registers per thread, {threads} threads, {shared} bytes of shared memory per block",
    "ptxas", kind="analysis", category="memory",
)  # fmt: skip
"""
see: GlobalAccess

- $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=cubin
  cuda_tile.module @m { entry @k() { return } }
"""
