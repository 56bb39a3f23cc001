// What host code of CUTLASS needs of a driver: descriptors of tensor maps.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <cstring>

// The emulator's layout of a descriptor (docs/ptx-emulator.md) instead of the driver's.
extern "C" CUresult cuTensorMapEncodeTiled(
    CUtensorMap* map, CUtensorMapDataType element, cuuint32_t rank, void* address, cuuint64_t const* extents,
    cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  // numbers of CUtensorMapDataType as those of tensormap.replace
  static constexpr std::uint8_t kinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};
  // numbers of CUtensorMapSwizzle as mode and atomicity
  static constexpr std::uint8_t modes[][2] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 1}, {3, 2}, {3, 3}};
  if (rank < 1 || rank > 5 || reinterpret_cast<std::uintptr_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
  auto* to = reinterpret_cast<std::uint8_t*>(map);
  auto put = [&](std::size_t at, auto value) { std::memcpy(to + at, &value, sizeof value); };
  std::memset(to, 0, 128);
  put(0, reinterpret_cast<std::uint64_t>(address));
  put(8, std::uint32_t(0x50414D54));
  put(12, std::uint8_t(rank));
  put(13, kinds[element]);
  put(14, modes[swizzle][0]);
  put(15, modes[swizzle][1]);
  put(16, std::uint8_t(interleave));
  put(17, std::uint8_t(fill));
  for (cuuint32_t i = 0; i < rank; ++i) {
    put(20 + 4 * i, std::uint32_t(extents[i]));
    if (i) put(40 + 8 * (i - 1), std::uint64_t(strides[i - 1]));
    put(72 + 2 * i, std::uint16_t(box[i]));
    put(82 + 2 * i, std::uint16_t(steps[i]));
  }
  return CUDA_SUCCESS;
}

extern "C" CUresult cuTensorMapEncodeIm2col(
    CUtensorMap* map, CUtensorMapDataType element, cuuint32_t rank, void* address, cuuint64_t const* extents,
    cuuint64_t const* strides, int const* low, int const* high, cuuint32_t channels, cuuint32_t pixels,
    cuuint32_t const* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 3) return CUDA_ERROR_INVALID_VALUE;
  cuuint32_t box[5] = {channels, pixels};
  CUresult result = cuTensorMapEncodeTiled(map, element, rank, address, extents, strides, box, steps, interleave,
                                           swizzle, promotion, fill);
  auto* to = reinterpret_cast<std::uint8_t*>(map);
  to[18] = 1;
  for (cuuint32_t i = 0; i < rank - 2; ++i) {
    std::int16_t corners[] = {std::int16_t(low[i]), std::int16_t(high[i])};
    std::memcpy(to + 92 + 2 * i, corners, 2);
    std::memcpy(to + 98 + 2 * i, corners + 1, 2);
  }
  return result;
}
