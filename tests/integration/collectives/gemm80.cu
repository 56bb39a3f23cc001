// One multistage GEMM of CUTLASS 2 (cp.async, ldmatrix, mma.sync), chosen by macros: its kernel, and a program that prints
// how it is launched and the bytes of its parameters, for arrays at addresses given as arguments.

#include "cutlass/cutlass.h"
#include "cute/tensor.hpp"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/device/gemm_universal.h"

namespace layout = cutlass::layout;
namespace arch = cutlass::arch;
using cutlass::half_t;
using cutlass::bfloat16_t;
using cutlass::tfloat32_t;
using cutlass::gemm::GemmShape;

using Gemm = cutlass::gemm::device::GemmUniversal<
    ELEMENT_A, layout::RowMajor, ELEMENT_B, layout::ColumnMajor, ELEMENT_D, layout::RowMajor, float,
    arch::OpClassTensorOp, arch::Sm80, GemmShape<TILE>, GemmShape<WARP_TILE>, GemmShape<INSTRUCTION>,
    cutlass::epilogue::thread::LinearCombination<ELEMENT_D, 128 / cutlass::sizeof_bits<ELEMENT_D>::value, float, float>,
    cutlass::gemm::threadblock::SWIZZLE, STAGES>;
using Kernel = typename Gemm::GemmKernel;

template __global__ void cutlass::Kernel2<Kernel>(typename Kernel::Params);

#define CLUSTER cute::_1, cute::_1, cute::_1
#include "host.hpp"

int main(int, char** words) {
  int m = number(words[1]), n = number(words[2]), k = number(words[3]);
  typename Gemm::Arguments arguments(
      cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k}, SPLITS, {std::stof(words[10]), std::stof(words[11])},
      pointer<void>(words[5]), pointer<void>(words[6]), pointer<void>(words[7]), pointer<void>(words[8]), 0, 0, 0, 0, k, k, n, n);
  typename Kernel::Params params(arguments, SMS, 1);
  params.init_workspace(pointer<void>(words[9]), nullptr);
  dim3 grid = params.get_grid_dims();
  return print(grid, dim3(Kernel::kThreadCount), int(sizeof(typename Kernel::SharedStorage)),
               params.get_workspace_size(), params);
}
