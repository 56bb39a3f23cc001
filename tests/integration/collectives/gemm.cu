// One GEMM of CUTLASS's collective builders, chosen by macros: its kernel, and a program that prints how it is launched and
// the bytes of its parameters, for arrays at addresses given as arguments.

#include "cutlass/cutlass.h"
#include "cute/tensor.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/default_epilogue.hpp"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/dispatch_policy.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;
namespace layout = cutlass::layout;
namespace arch = cutlass::arch;
using cutlass::half_t;
using cutlass::bfloat16_t;
using cutlass::float_e4m3_t;
using cutlass::float_e5m2_t;
using cutlass::float_e2m1_t;
using cutlass::tfloat32_t;
using cutlass::mx_float8_t;
using cutlass::mx_float4_t;
using cutlass::nv_float4_t;
using namespace cutlass::gemm;
namespace epi = cutlass::epilogue;

#ifndef ALIGN_A
#define ALIGN_A (128 / cutlass::sizeof_bits<ELEMENT_A>::value)
#endif
#ifndef ALIGN_B
#define ALIGN_B (128 / cutlass::sizeof_bits<ELEMENT_B>::value)
#endif
#ifndef OPCLASS
#define OPCLASS arch::OpClassTensorOp
#endif
#ifndef ACCUMULATOR
#define ACCUMULATOR float
#endif
#ifndef SCHEDULE
#define SCHEDULE collective::KernelScheduleAuto
#endif
#ifndef EPILOGUE
#define EPILOGUE epi::collective::EpilogueScheduleAuto
#endif
#ifndef EPILOGUE_TILE
#define EPILOGUE_TILE epi::collective::EpilogueTileAuto
#endif
#ifndef SCHEDULER
#define SCHEDULER void
#endif
#ifndef EPILOGUE_OF_TILE
#define EPILOGUE_OF_TILE TILE
#endif

using TileShape = Shape<TILE>;
using Cluster = Shape<CLUSTER>;

using Epilogue = typename epi::collective::CollectiveBuilder<
    arch::TARGET, OPCLASS, TileShape, Cluster, EPILOGUE_TILE, ACCUMULATOR, float,
    ELEMENT_C, LAYOUT_C, 128 / cutlass::sizeof_bits<ELEMENT_D>::value,
    ELEMENT_D, LAYOUT_C, 128 / cutlass::sizeof_bits<ELEMENT_D>::value, EPILOGUE>::CollectiveOp;

#ifdef STAGES
using Stages = collective::StageCount<STAGES>;
#else
using Stages = collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>;
#endif

using Mainloop = typename collective::CollectiveBuilder<
    arch::TARGET, OPCLASS, ELEMENT_A, LAYOUT_A, ALIGN_A, ELEMENT_B, LAYOUT_B, ALIGN_B, ACCUMULATOR,
    TileShape, Cluster, Stages, SCHEDULE>::CollectiveOp;

using Kernel = kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, SCHEDULER>;

template __global__ void cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT typename Kernel::Params const);

#include "host.hpp"

int main(int, char** words) {
  int m = number(words[1]), n = number(words[2]), k = number(words[3]), l = number(words[4]);
  auto* a = pointer<typename Mainloop::ElementA>(words[5]);
  auto* b = pointer<typename Mainloop::ElementB>(words[6]);
  auto* c = pointer<ELEMENT_C>(words[7]);
  auto* d = pointer<ELEMENT_D>(words[8]);
  void* workspace = pointer<void>(words[9]);
  auto stride = [&](auto s, int rows, int columns) {
    return cutlass::make_cute_packed_stride(s, make_shape(rows, columns, l));
  };
  typename Kernel::Arguments arguments{};
  arguments.mode = GemmUniversalMode::kGemm;
  arguments.problem_shape = {m, n, k, l};
  arguments.mainloop.ptr_A = a;
  arguments.mainloop.ptr_B = b;
#ifdef SCALED
  using Config = typename Mainloop::Sm1xxBlkScaledConfig;
  arguments.mainloop.layout_SFA = Config::tile_atom_to_shape_SFA(make_shape(m, n, k, l));
  arguments.mainloop.layout_SFB = Config::tile_atom_to_shape_SFB(make_shape(m, n, k, l));
  arguments.mainloop.ptr_SFA = pointer<typename Mainloop::ElementSF>(words[12]);
  arguments.mainloop.ptr_SFB = pointer<typename Mainloop::ElementSF>(words[13]);
#endif
  arguments.mainloop.dA = stride(typename Kernel::StrideA{}, m, k);
  arguments.mainloop.dB = stride(typename Kernel::StrideB{}, n, k);
  arguments.epilogue.ptr_C = c;
  arguments.epilogue.ptr_D = d;
  arguments.epilogue.dC = stride(typename Kernel::StrideC{}, m, n);
  arguments.epilogue.dD = stride(typename Kernel::StrideD{}, m, n);
  arguments.epilogue.thread.alpha = std::stof(words[10]);
  arguments.epilogue.thread.beta = std::stof(words[11]);
  arguments.hw_info.sm_count = SMS;
  arguments.hw_info.max_active_clusters = SMS / int(size(Cluster{}));
#ifdef STREAM_K  // what its heuristics would choose at these sizes is no stream-K
  arguments.scheduler.decomposition_mode =
      kernel::detail::PersistentTileSchedulerSm90StreamKParams::DecompositionMode::StreamK;
#endif
  return describe<Kernel>(arguments, workspace);
}
