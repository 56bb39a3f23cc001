"""Texts of the NVVM IR verifier and of the module verifier in front of it."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, WORD_ERROR, WORD_REMARK, Diag

_SRC = "NVVM IR verifier"
OVERFLOW = Diag(
    "NV-0101",
    ERROR,
    "Formal parameter space overflowed ({need} bytes required, max {limit} bytes allowed) in function {function}",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

- module attributes {nv_tileaa.compute_capability = 75 : i32} {
+ module attributes {nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32} {
    cuda_tile.module {
-     entry @big_kernel(%a0: tile<i8>, %b0: tile<i64>, %a1: tile<i8>, %b1: tile<i64>, %a2: tile<i8>, %b2: tile<i64>, %a3: tile<i8>, %b3: tile<i64>, %a4: tile<i8>, %b4: tile<i64>, %a5: tile<i8>, %b5: tile<i64>, %a6: tile<i8>, %b6: tile<i64>, %a7: tile<i8>, %b7: tile<i64>, %a8: tile<i8>, %b8: tile<i64>, %a9: tile<i8>, %b9: tile<i64>, %a10: tile<i8>, %b10: tile<i64>, %a11: tile<i8>, %b11: tile<i64>, %a12: tile<i8>, %b12: tile<i64>, %a13: tile<i8>, %b13: tile<i64>, %a14: tile<i8>, %b14: tile<i64>, %a15: tile<i8>, %b15: tile<i64>, %a16: tile<i8>, %b16: tile<i64>, %a17: tile<i8>, %b17: tile<i64>, %a18: tile<i8>, %b18: tile<i64>, %a19: tile<i8>, %b19: tile<i64>, %a20: tile<i8>, %b20: tile<i64>, %a21: tile<i8>, %b21: tile<i64>, %a22: tile<i8>, %b22: tile<i64>, %a23: tile<i8>, %b23: tile<i64>, %a24: tile<i8>, %b24: tile<i64>, %a25: tile<i8>, %b25: tile<i64>, %a26: tile<i8>, %b26: tile<i64>, %a27: tile<i8>, %b27: tile<i64>, %a28: tile<i8>, %b28: tile<i64>, %a29: tile<i8>, %b29: tile<i64>, %a30: tile<i8>, %b30: tile<i64>, %a31: tile<i8>, %b31: tile<i64>, %a32: tile<i8>, %b32: tile<i64>, %a33: tile<i8>, %b33: tile<i64>, %a34: tile<i8>, %b34: tile<i64>, %a35: tile<i8>, %b35: tile<i64>, %a36: tile<i8>, %b36: tile<i64>, %a37: tile<i8>, %b37: tile<i64>, %a38: tile<i8>, %b38: tile<i64>, %a39: tile<i8>, %b39: tile<i64>, %a40: tile<i8>, %b40: tile<i64>, %a41: tile<i8>, %b41: tile<i64>, %a42: tile<i8>, %b42: tile<i64>, %a43: tile<i8>, %b43: tile<i64>, %a44: tile<i8>, %b44: tile<i64>, %a45: tile<i8>, %b45: tile<i64>, %a46: tile<i8>, %b46: tile<i64>, %a47: tile<i8>, %b47: tile<i64>, %a48: tile<i8>, %b48: tile<i64>, %a49: tile<i8>, %b49: tile<i64>, %a50: tile<i8>, %b50: tile<i64>, %a51: tile<i8>, %b51: tile<i64>, %a52: tile<i8>, %b52: tile<i64>, %a53: tile<i8>, %b53: tile<i64>, %a54: tile<i8>, %b54: tile<i64>, %a55: tile<i8>, %b55: tile<i64>, %a56: tile<i8>, %b56: tile<i64>, %a57: tile<i8>, %b57: tile<i64>, %a58: tile<i8>, %b58: tile<i64>, %a59: tile<i8>, %b59: tile<i64>, %a60: tile<i8>, %b60: tile<i64>, %a61: tile<i8>, %b61: tile<i64>, %a62: tile<i8>, %b62: tile<i64>, %a63: tile<i8>, %b63: tile<i64>, %c: tile<i8>) {
-
+     entry @k() {
+       %a = constant <f16: 1.0> : tile<16x16xf16>
+       %b = constant <f16: 1.0> : tile<16x16xf16>
+       %c = constant <f32: 1.0> : tile<16x16xf32>
+       %d = mmaf %a, %b, %c : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
        return
      }
    }
  }
"""  # noqa: E501

NOT_A_KERNEL = Diag(
    "NV-0102", ERROR, "a function that is not __global__ cannot be launched", _SRC, WORD_ERROR
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k(u64 "ptr<f32>") block 128, 1, 1 attributes {nvvm.kernel} {
      %d1 = ld.param.u64 [k_param_0]
      launch child, %d1
      ret
    }
- func @child(u64 "ptr<f32>") block 32, 1, 1 device {
+ func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""

NO_SUCH_FUNCTION = Diag(
    "NV-0103",
    ERROR,
    "function {function} launches '{callee}', which is not defined in the module",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k(u64 "ptr<f32>") block 128, 1, 1 attributes {nvvm.kernel} {
      %d1 = ld.param.u64 [k_param_0]
-   launch kid, %d1
+   launch child, %d1
      ret
    }
    func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""

LAUNCH_SPACE = Diag(
    "NV-0104",
    ERROR,
    "argument {index} of the launch of {callee} in function {function} points to {space} memory: the kernel cannot read it",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k(u64 "ptr<f32>") block 128, 1, 1 attributes {nvvm.kernel} {
-   %d1 = mov.u64 $smem
+   %d1 = ld.param.u64 [k_param_0]
      launch child, %d1
      ret
    }
    func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""

TOO_NEW = Diag(
    "NV-0105",
    ERROR,
    "instruction {opcode} in function {function} needs {feature}, which {target} does not have",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
- nvvm.module sm_75 {
+ nvvm.module sm_80 {
    func @k() block 128, 1, 1 attributes {nvvm.kernel} {
      cp.async.wait_all
      ret
    }
  }
"""

UNKNOWN_OPCODE = Diag(
    "NV-0106", ERROR, "instruction {opcode} in function {function} is not known", _SRC, WORD_ERROR
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k() block 128, 1, 1 attributes {nvvm.kernel} {
-   frobnicate.u32 %r1
+   %r1 = mov.u32 0
      ret
    }
  }
"""

OPERANDS = Diag(
    "NV-0109",
    ERROR,
    "record {index} of function {function} does not have the operands of {opcode}: {form}",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k() block 128, 1, 1 attributes {nvvm.kernel} {
-   %r1 = add.s32 1
+   %r1 = add.s32 1, 2
      ret
    }
  }
"""

NO_PTX = Diag(
    "NV-0108",
    ERROR,
    "the launch of {callee} in function {function} has no PTX: kernels are launched by the host",
    _SRC,
    WORD_ERROR,
)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pipeline-to=ptx
  nvvm.module sm_80 {
    func @k(u64 "ptr<f32>") block 128, 1, 1 attributes {nvvm.kernel} {
      %d1 = ld.param.u64 [k_param_0]
-   launch child, %d1
      ret
    }
    func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""

WHERE = Diag("NV-0107", NOTE, "{text}", _SRC)
"""
see: NVVM-0001

  $ tileiras-opt k.tileir --pass NVVMIRVerifier
  nvvm.module sm_80 {
    func @k(u64 "ptr<f32>") block 128, 1, 1 attributes {nvvm.kernel} {
-   %d1 = mov.u64 $smem
+   %d1 = ld.param.u64 [k_param_0]
      launch child, %d1
      ret
    }
    func @child(u64 "ptr<f32>") block 32, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""


NO_METADATA = Diag(
    "NV-0201", ERROR, "kernel {function} has no nvvm.kernel metadata", "module verifier", WORD_ERROR
)
"""
cause: The launch description of a kernel is missing, or contradicts itself.
remedy: Let the whole pipeline run, or correct the attribute that the message names in a text written by hand.

  $ tileiras-opt k.tileir --pass ModuleVerifier
  nvvm.module sm_80 {
- func @k() block 128, 1, 1 {
+ func @k() block 128, 1, 1 attributes {nvvm.kernel} {
      ret
    }
  }
"""

LAUNCH_BOUNDS = Diag(
    "NV-0202",
    ERROR,
    "launch bounds of kernel {function} are inconsistent: {what}",
    "module verifier",
    WORD_ERROR,
)
"""
see: NV-0201

- module attributes {nv_tileaa.compute_capability = 90 : i32, tt.cluster_dim = [2, 1, 1]} {
+ module attributes {nv_tileaa.compute_capability = 90 : i32, tt.cluster_dim = [1, 1, 1]} {
    cuda_tile.module {
      entry @k() attributes {nvvm.blocksareclusters} {

        return
      }
    }
  }
"""

LIMITED = Diag(
    "NV-0301", REMARK, "a thread may have {limit} registers, with which blocks fill an SM: {alive} words are alive at once",
    "register limits", WORD_REMARK, kind="analysis", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop without products needs few registers at once. ptxas is told by `.maxnreg` to take no more of them than a full
SM has for each thread, since it may take more for loads that it issues early, and fewer blocks fit an SM then.
remedy: Nothing is wrong. `optimization_hints` with an occupancy, or `nvvm.maxnreg` on the entry, decide otherwise.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all -O1
  cuda_tile.module @kernels {
    entry @sums(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {
      %xv = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %yv = make_tensor_view %y, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
      %xt = make_partition_view %xv : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
      %yt = make_partition_view %yv : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
      %steps = get_index_space_shape %xt : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>> -> tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<1024xf32>
      %t = make_token : token
      %sum:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %at = %zero) -> (tile<1024xf32>, tile<i32>) {
        %v, %u = load_view_tko weak %xt[%at] token = %t : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
        %next = addf %acc, %v : tile<1024xf32>
        %more = addi %at, %n : tile<i32>
        continue %next, %more : tile<1024xf32>, tile<i32>
      }
      %s = store_view_tko weak %sum#0, %yt[%zero] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501
