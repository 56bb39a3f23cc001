"""Generated launchers of kernels that take tensor maps, against a driver of our own that writes down what it is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import peers
import pytest
from build_tools import call, compile_images

from tileiras.compiler.target.tensor_maps import Source, TensorMap

DRIVER = r"""
#include <stdio.h>
#include <string.h>
typedef unsigned long long u64;
static int major = 9;
void fake_device(int a) { major = a; }
int cuInit(unsigned flags) { return (int)flags; }
int cuLibraryLoadData(void **library, const void *image, void *a, void **b, unsigned c, void *d, void **e, unsigned f) {
  (void)a; (void)b; (void)c; (void)d; (void)e; (void)f;
  *library = (void *)image;
  return 0;
}
int cuLibraryGetKernel(void **kernel, void *library, const char *name) { (void)library; (void)name; *kernel = &major; return 0; }
int cuLibraryUnload(void *library) { return library ? 0 : 1; }
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  (void)attribute; (void)value; (void)kernel; (void)device;
  return 0;
}
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  *value = which == 75 ? major : 0;
  return 0;
}
#ifndef OLD
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const u64 *extents, const u64 *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int promotion, int fill) {
  unsigned i;
  if ((size_t)map % 128) return 1;
  printf("map type %d rank %u base %llx extents", type, rank, (u64)(size_t)base);
  for (i = 0; i < rank; ++i) printf(" %llu", extents[i]);
  printf(" strides");
  for (i = 0; i + 1 < rank; ++i) printf(" %llu", strides[i]);
  printf(" box");
  for (i = 0; i < rank; ++i) printf(" %u/%u", box[i], steps[i]);
  printf(" interleave %d swizzle %d promotion %d fill %d\n", interleave, swizzle, promotion, fill);
  if (rank == 2 && extents[0] == 4242) return 801;
  memset(map, 'a' + (int)rank, 128);
  return 0;
}
int cuMemAllocAsync(u64 *place, size_t size, void *stream) {
  printf("alloc %zu on %p\n", size, stream);
  *place = 0x7000;
  return 0;
}
int cuMemsetD8Async(u64 place, unsigned char value, size_t size, void *stream) {
  (void)stream;
  printf("fill %llx %u x %zu\n", place, value, size);
  return 0;
}
int cuMemFreeAsync(u64 place, void *stream) { (void)stream; printf("free %llx\n", place); return 0; }
#endif
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **args, void **extra) {
  (void)kernel; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)extra; (void)args;
#ifdef ANY_KERNEL
  printf("launch of %ux%ux%u threads with %u bytes\n", bx, by, bz, shared);
  return 0;
#endif
  printf("launch on %p, argument 14 is %d", stream, *(int *)args[14]);
  if (major == 9) printf(", maps %.3s %.3s", (char *)args[15], (char *)args[16]);
  printf("\n");
  return 0;
}
"""
USER = r"""
#include "k_tile.h"
#include <stdio.h>
#include <stdlib.h>
%s void fake_device(int);
int main(int count, char **words) {
  /* device major, then the 15 arguments */
  unsigned long long pointers[15];
  int numbers[15], i;
  void *args[15];
  tileirasGrid grid = {2, 1, 1};
  (void)count;
  fake_device(atoi(words[1]));
  for (i = 0; i < 15; ++i) {
    pointers[i] = strtoull(words[i + 2], 0, 0);
    numbers[i] = (int)strtoll(words[i + 2], 0, 0);
    args[i] = i %% 5 ? (void *)&numbers[i] : (void *)&pointers[i];
  }
  printf("status %%d\n", (int)k_launch(0, grid, (CUstream)0x55, args));
  return 0;
}
"""
ONE = Source("const", 1)
MAPS = (
    TensorMap(0, "f32", (Source("param", 1), Source("param", 2)), (Source("param", 3), ONE), (64, 16), "64B", "zeros"),
    TensorMap(
        5, "bf16", (Source("const", 3), Source("param", 6), Source("const", 1 << 32)),
        (Source("const", 1 << 33), Source("param", 8), ONE), (1, 256, 64), "128B", "nan",
    ),
)  # fmt: skip
FITTING = [
    "0x1000",
    "100",
    "200",
    "400",
    "1",
    "0x2000",
    "300",
    "7",
    "512",
    "1",
    "0x3001",
    "5",
    "6",
    "7",
    "99",
]
FIRST = "map type 7 rank 2 base 1000 extents 200 100 strides 1600 box 16/1 64/1 interleave 0 swizzle 2 promotion 2 fill 0"
SECOND = (
    "map type 9 rank 3 base 2000 extents 4294967296 300 3 strides 1024 17179869184 box 64/1 256/1 1/1 interleave 0 "
    "swizzle 3 promotion 2 fill 1"
)
LANGUAGES = (("gcc", "-std=c99"), ("g++", "-std=c++17"))
STRICT = ("-Wall", "-Wextra", "-Werror", "-DTILEIRAS_NO_CUDA_H")

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc and g++"
)


def generate(images: Path, folder: Path) -> None:
    """Header and source of a kernel that takes two maps on sm_90 and none on sm_100."""
    tables = []
    for arch in ("sm_90", "sm_100"):
        table = json.loads((images / f"{arch}.json").read_text())
        if arch == "sm_90":
            table["kernels"][0]["hidden"] = [each.as_dict() for each in MAPS]
        tables += ["--json", folder / f"{arch}.json"]
        tables[-1].write_text(json.dumps(table))
    outputs = ["--header-out", folder / "k_tile.h", "--source-out", folder / "k_tile.c"]
    done = call("header", "--prefix", "k", "--image", images / "k.fatbin", *tables, *outputs)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module", params=["c99", "cxx17", "linked"])
def launch(request: Any, images: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """launch(major, arguments) -> (lines on standard output, standard error), of launchers in C, in C++, and linked."""
    folder = tmp_path_factory.mktemp("program")
    generate(images, folder)
    build(
        folder,
        LANGUAGES[request.param == "cxx17"],
        ["-DTILEIRAS_LINK_CUDA"] if request.param == "linked" else [],
    )
    return lambda major, arguments: start(folder, major, arguments)


def build(folder: Path, language: tuple[str, str], more: list[str], driver: tuple[str, ...] = ()) -> None:
    compiler, standard = language
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "libcuda.so.1"
    subprocess.run(["gcc", *driver, "-shared", "-fPIC", "-o", library, folder / "driver.c"], check=True)
    (folder / "user.c").write_text(USER % ("extern" if compiler == "gcc" else 'extern "C"'))
    words = [compiler, standard, *STRICT, *more, "-x", "c" if compiler == "gcc" else "c++"]
    words += [folder / "user.c", folder / "k_tile.c", "-x", "none", library, f"-Wl,-rpath,{folder}", "-ldl"]
    subprocess.run([*words, "-o", folder / "program"], check=True)


def start(folder: Path, major: int, arguments: list[str]) -> tuple[list[str], str]:
    env = {"LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(
        [folder / "program", str(major), *arguments], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.splitlines(), done.stderr


def changed(**new: str) -> list[str]:
    """The fitting arguments, some of them others: a0="0x1004"."""
    return [new.get(f"a{i}", word) for i, word in enumerate(FITTING)]


def test_maps_are_made_of_the_arguments_and_passed_behind_them(launch: Any) -> None:
    assert launch(9, FITTING) == (
        [FIRST, SECOND, "launch on 0x55, argument 14 is 99, maps ccc ddd", "status 0"],
        "",
    )


def test_an_architecture_without_maps_is_launched_without(launch: Any) -> None:
    assert launch(10, FITTING) == (["launch on 0x55, argument 14 is 99", "status 0"], "")


@pytest.mark.parametrize(
    ("wrong", "status", "why"),
    [
        ({"a0": "0x1004"}, 716, "argument 0 makes no tensor map: it points to a multiple of 16 bytes and 4"),
        ({"a3": "401"}, 716, "argument 0 makes no tensor map: strides are multiples of 16 bytes, not 1604"),
        ({"a8": "-8"}, 1, "argument 5 makes no tensor map: strides of less than 2^40 bytes are possible, not elements: -8"),
        ({"a1": "-1"}, 1, "argument 0 makes no tensor map: at most 4294967296 elements a dimension are possible, not -1"),
        ({"a2": "4242"}, 801, "argument 0 makes no tensor map: the driver refuses it with 801"),
    ],
)  # fmt: skip
def test_arguments_that_make_no_map_start_nothing(
    launch: Any, wrong: dict[str, str], status: int, why: str
) -> None:
    out, err = launch(9, changed(**wrong))
    assert out[-1] == f"status {status}" and not any(line.startswith("launch") for line in out)
    assert err == f"tileiras: kernel 'add_2d_f32' is not launched, as {why}\n"


def test_the_stride_of_a_single_row_says_nothing(launch: Any) -> None:
    out, _ = launch(9, changed(a1="1", a3="-7"))
    assert out[0] == FIRST.replace("200 100 strides 1600", "200 1 strides 128") and out[-1] == "status 0"


def test_an_array_without_elements_is_one_element_of_what_lies_outside(launch: Any) -> None:
    """A driver encodes no extent of 0, and the array's address may lead nowhere."""
    out, err = launch(9, changed(a0="0", a2="0", a5="0x1", a6="0"))
    assert (out, err) == ([
        "alloc 256 on 0x55", "fill 7000 0 x 128", "fill 7080 255 x 128",
        FIRST.replace("base 1000 extents 200 100 strides 1600", "base 7000 extents 1 1 strides 128"),
        SECOND.replace("base 2000 extents 4294967296 300 3 strides 1024 17179869184", "base 7080 extents 1 1 1 strides 128 128"),
        "launch on 0x55, argument 14 is 99, maps ccc ddd", "free 7000", "status 0",
    ], "")  # fmt: skip
    out, _ = launch(9, changed(a6="0", a3="401"))
    assert "launch" not in " ".join(out)


def test_a_driver_that_makes_no_maps_launches_what_takes_none(images: Path, tmp_path: Path) -> None:
    generate(images, tmp_path)
    build(tmp_path, LANGUAGES[0], [], ("-DOLD",))
    assert start(tmp_path, 10, FITTING)[0][-1] == "status 0"
    assert start(tmp_path, 9, FITTING)[0] == ["status 302"]


@pytest.mark.parametrize("language", [("gcc", "-std=c90"), ("g++", "-std=c++11")], ids=["c90", "cxx11"])
def test_every_warning_is_an_error(images: Path, tmp_path: Path, language: tuple[str, str]) -> None:
    generate(images, tmp_path)
    compiler, standard = language
    words = "-pedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wcast-align -Wundef -Wmissing-declarations".split()
    words += ["-x", "c" if compiler == "gcc" else "c++"]
    words += (
        []
        if compiler == "gcc"
        else ["-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-fno-exceptions"]
    )
    subprocess.run(
        [compiler, standard, *STRICT, *words, "-c", tmp_path / "k_tile.c", "-o", tmp_path / "k.o"], check=True
    )


@pytest.mark.parametrize("language", LANGUAGES, ids=["c99", "cxx17"])
@pytest.mark.parametrize("link", [False, True])
def test_compiles_with_the_toolkits_header(
    images: Path, tmp_path: Path, language: tuple[str, str], link: bool
) -> None:
    generate(images, tmp_path)
    compiler, standard = language
    words = [compiler, "-x", "c" if compiler == "gcc" else "c++", standard, *STRICT[:3]]
    words += [f"-I{peers.require_toolkit() / 'include'}", *(["-DTILEIRAS_LINK_CUDA"] if link else [])]
    subprocess.run([*words, "-c", tmp_path / "k_tile.c", "-o", tmp_path / "k.o"], check=True)


def test_numbers_are_those_of_the_toolkits_header(tmp_path: Path) -> None:
    from tileiras.compiler.target.tensor_maps import ELEMENTS, FILLS, SWIZZLES

    names = {f"DATA_TYPE_{name}": number for _, name, number in ELEMENTS.values()}
    names |= {f"SWIZZLE_{name.upper()}": number for name, number in SWIZZLES.items()}
    names |= {"FLOAT_OOB_FILL_NONE": FILLS["zeros"], "FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA": FILLS["nan"]}
    names |= {"INTERLEAVE_NONE": 0, "L2_PROMOTION_L2_128B": 2}
    lines = ["#include <cuda.h>"]
    lines += [f'static_assert(CU_TENSOR_MAP_{name} == {number}, "{name}");' for name, number in names.items()]
    lines += ['static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 128, "size");']
    lines += [
        'static_assert(CUDA_ERROR_MISALIGNED_ADDRESS == 716 && CUDA_ERROR_INVALID_VALUE == 1, "codes");'
    ]
    (tmp_path / "numbers.cpp").write_text("\n".join(lines) + "\n")
    words = ["g++", "-std=c++17", "-fsyntax-only", f"-I{peers.require_toolkit() / 'include'}"]
    subprocess.run([*words, tmp_path / "numbers.cpp"], check=True)
