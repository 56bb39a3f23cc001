"""`tileiras-build header` and `object`: generated C and C++, compiled, linked, run against our own driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import peers
import pytest
import stub_drivers
from build_tools import KERNEL, call, compile_images


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cubins and tables of one kernel for two architectures, and their container."""
    return compile_images(tmp_path_factory.mktemp("images"))


def generate(images: Path, folder: Path, *more: object) -> None:
    tables = [word for arch in ("sm_90", "sm_100") for word in ("--json", images / f"{arch}.json")]
    outputs = ["--header-out", folder / "k_tile.h", "--source-out", folder / "k_tile.c"]
    done = call("header", "--prefix", "k", "--image", images / "k.fatbin", *tables, *outputs, *more)
    assert done.returncode == 0, done.stderr


FAKE_DRIVER = r"""
#include <stdio.h>
#include <string.h>
static int major = 9, minor = 0, loads;
void fake_device(int a, int b) { major = a; minor = b; }
int fake_loads(void) { return loads; }
int cuInit(unsigned flags) { return (int)flags; }
int cuLibraryLoadData(void **library, const void *image, void *a, void **b, unsigned c, void *d, void **e,
                      unsigned f) {
  (void)a; (void)b; (void)c; (void)d; (void)e; (void)f;
  ++loads;
  *library = (void *)image;
  return memcmp(image, "\x50\xed\x55\xba", 4) ? 200 : 0;
}
int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  (void)library;
  if (strcmp(name, "add_2d_f32")) return 500;
  *kernel = (void *)0x1234;
  return 0;
}
int cuLibraryUnload(void *library) { return library ? 0 : 1; }
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  printf("attribute %d=%d kernel %p device %d\n", attribute, value, kernel, device);
  return 0;
}
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  *value = which == 75 ? major : which == 76 ? minor : -1;
  return 0;
}
int cuTensorMapEncodeTiled(void) { return 801; }
int cuMemAllocAsync(void) { return 801; }
int cuMemsetD8Async(void) { return 801; }
int cuMemFreeAsync(void) { return 801; }
int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **args, void **extra) {
  (void)extra; (void)stream;
  printf("launch %p grid %u %u %u block %u %u %u shared %u first %d\n",
         kernel, gx, gy, gz, bx, by, bz, shared, *(int *)args[1]);
  return 0;
}
"""

USER = r"""
#include "k_tile.h"
#include <stdio.h>
extern %s void fake_device(int, int);
extern %s int fake_loads(void);
int main(void) {
  void *pointer = 0; int n = 77, i;
  void *args[15];
  CUkernel kernel; CUlibrary library;
  tileirasGrid grid = {2, 3, 4};
  for (i = 0; i < 15; ++i) args[i] = i %% 5 ? (void *)&n : (void *)&pointer;
  printf("%%u kernels, %%s, %%u params, archs %%s, aligned %%d, hash %%d\n",
         k_kernel_count, k_kernels[0].name, k_kernels[0].param_count, k_kernels[0].archs,
         (int)((size_t)k_image %% 64), (int)k_image_hash[0] != 0);
  printf("load %%d\n", (int)k_load(&library));
  printf("get %%d %%d %%d\n", (int)k_get_by_name("add_2d_f32", &kernel), (int)k_get_by_name("no", &kernel),
         (int)k_get(5, &kernel));
  printf("launch %%d\n", (int)k_launch(k_add_2d_f32, grid, 0, args));
  fake_device(8, 9);
  printf("old device %%d\n", (int)k_launch(0, grid, 0, args));
  fake_device(12, 0);
  printf("other major %%d\n", (int)k_launch(0, grid, 0, args));
  printf("unload %%d", (int)k_unload());
  printf(", loads %%d\n", fake_loads());
  printf("again %%d", (int)k_load(0));
  printf(", loads %%d\n", fake_loads());
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("g++") is None, reason="needs gcc and g++")
class TestHeader:
    LANGUAGES = (("gcc", "-std=c99"), ("g++", "-std=c++17"))
    STRICT = ("-Wall", "-Wextra", "-Werror")

    @pytest.mark.parametrize("embed", ["array", "incbin"])
    @pytest.mark.parametrize("language", LANGUAGES, ids=["c99", "cxx17"])
    @pytest.mark.parametrize("with_cuda_h", [False, True])
    @pytest.mark.parametrize("link", [False, True])
    def test_compiles_without_a_warning(
        self,
        images: Path,
        tmp_path: Path,
        embed: str,
        language: tuple[str, str],
        with_cuda_h: bool,
        link: bool,
    ) -> None:
        generate(images, tmp_path, "--embed", embed)
        compiler, standard = language
        words = [compiler, "-x", "c" if compiler == "gcc" else "c++", standard, *self.STRICT]
        words += [f"-I{peers.require_toolkit() / 'include'}"] if with_cuda_h else ["-DTILEIRAS_NO_CUDA_H"]
        words += ["-DTILEIRAS_LINK_CUDA"] if link else []
        subprocess.run([*words, "-c", tmp_path / "k_tile.c", "-o", tmp_path / "k.o"], check=True)

    @pytest.mark.parametrize("language", LANGUAGES, ids=["c99", "cxx17"])
    @pytest.mark.parametrize("embed", ["array", "incbin", "none"])
    @pytest.mark.parametrize("link", [False, True])
    def test_loads_and_launches(
        self, images: Path, tmp_path: Path, language: tuple[str, str], embed: str, link: bool
    ) -> None:
        """Against a driver of our own that reports what it was asked."""
        generate(images, tmp_path, "--embed", embed)
        compiler, standard = language
        kind = "c" if compiler == "gcc" else "c++"
        (tmp_path / "driver.c").write_text(FAKE_DRIVER)
        shared = ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"]
        subprocess.run(shared, check=True)
        mark = '"C"' if kind == "c++" else ""
        (tmp_path / "user.c").write_text(USER % (mark, mark))
        objects: list[Path] = []
        if embed == "none":
            objects.append(tmp_path / "image.o")
            done = call("object", "--prefix", "k", "--image", images / "k.fatbin", "-o", objects[0])
            assert done.returncode == 0, done.stderr
        words = [
            compiler,
            standard,
            *self.STRICT,
            "-DTILEIRAS_NO_CUDA_H",
            *(["-DTILEIRAS_LINK_CUDA"] if link else []),
        ]
        sources = ["-x", kind, tmp_path / "user.c", tmp_path / "k_tile.c", "-x", "none"]
        library = [tmp_path / "libcuda.so.1", f"-Wl,-rpath,{tmp_path}", "-ldl"]
        program = tmp_path / "program"
        subprocess.run([*words, *sources, *objects, *library, "-o", program], check=True)
        env = {"LD_LIBRARY_PATH": str(tmp_path)}
        said = subprocess.run(
            [program], capture_output=True, text=True, check=True, env=env
        ).stdout.splitlines()
        assert said == [
            "1 kernels, add_2d_f32, 15 params, archs sm_90 sm_100, aligned 0, hash 1",
            "load 0",
            "get 0 500 1",
            "launch 0x1234 grid 2 3 4 block 1 1 1 shared 0 first 77",
            "launch 0",
            "old device 209",
            "other major 209",
            "unload 0, loads 1",
            "again 0, loads 2",
        ]

    def test_two_units_in_one_file(self, images: Path, tmp_path: Path) -> None:
        """As in a unity build; their prefixes differ in case alone."""
        for prefix in ("k", "K"):
            (tmp_path / prefix).mkdir()
            generate(images, tmp_path / prefix, "--prefix", prefix, "--include-as", f"{prefix}/k_tile.h",
                     "--embed", "incbin")  # fmt: skip
        both = tmp_path / "both.c"
        for prefix in ("k", "K"):
            with both.open("a") as file:
                file.write(f'#include "{prefix}/k_tile.c"\n')
        both.open("a").write("int main(void) { return k_kernel_count == K_kernel_count ? 0 : 1; }\n")
        for language, standard in (("c", "-std=c99"), ("c++", "-std=c++17")):
            words = ["g++", *self.STRICT, "-DTILEIRAS_NO_CUDA_H", "-x", language, standard, f"-I{tmp_path}"]
            subprocess.run([*words, both, "-o", tmp_path / "both", "-ldl"], check=True)
            subprocess.run([tmp_path / "both"], check=True)

    def test_a_namespace_that_is_a_word_of_cxx(self, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path, "--prefix", "default")
        assert "namespace default_ {" in (tmp_path / "k_tile.h").read_text()
        (tmp_path / "user.cpp").write_text('#include "k_tile.h"\n')
        subprocess.run(["g++", "-fsyntax-only", tmp_path / "user.cpp"], check=True)
        done = call("header", "--prefix", "k", "--namespace", "a::int", "--image", images / "k.fatbin",
                    "--json", images / "sm_90.json", "--header-out", tmp_path / "h", "--source-out",
                    tmp_path / "c")  # fmt: skip
        assert done.returncode == 1 and "'a::int' is no C++ namespace" in done.stderr

    def test_without_a_driver(self, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path)
        (tmp_path / "user.c").write_text(
            '#include "k_tile.h"\nint main(void) { return k_load(0) == 303 ? 0 : 1; }\n'
        )
        words = ["gcc", *self.STRICT, "-DTILEIRAS_NO_CUDA_H", tmp_path / "user.c", tmp_path / "k_tile.c"]
        subprocess.run([*words, "-o", tmp_path / "program", "-ldl"], check=True)
        if not os.path.exists("/dev/nvidiactl"):
            assert subprocess.run([tmp_path / "program"]).returncode == 0

    @pytest.mark.parametrize("kind", stub_drivers.KINDS)
    def test_drivers_that_are_no_use(self, kind: str, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path)
        (tmp_path / "user.c").write_text(
            '#include "k_tile.h"\n#include <stdio.h>\n'
            'int main(void) { int first = k_load(0); printf("%d %d\\n", first, (int)k_load(0)); return 0; }\n'
        )
        words = ["gcc", *self.STRICT, "-DTILEIRAS_NO_CUDA_H", tmp_path / "user.c", tmp_path / "k_tile.c"]
        subprocess.run([*words, "-o", tmp_path / "program", "-ldl"], check=True)
        env = stub_drivers.environment(tmp_path, kind)
        status = {"missing": 303, "no library": 303, "not the driver": 302, "no device": 100, "too old": 302}[
            kind
        ]
        done = subprocess.run([tmp_path / "program"], env=env, check=True, capture_output=True, text=True)
        assert done.stdout == f"{status} {status}\n"

    def test_threads_load_once(self, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path)
        (tmp_path / "driver.c").write_text(FAKE_DRIVER)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"], check=True
        )
        (tmp_path / "user.cpp").write_text(
            '#include "k_tile.h"\n#include <thread>\n#include <vector>\nextern "C" int fake_loads(void);\n'
            "int main() {\n  std::vector<std::thread> threads;\n  int bad[8] = {0};\n"
            "  for (int i = 0; i < 8; ++i) threads.emplace_back([&bad, i] { CUkernel kernel;\n"
            "    for (int j = 0; j < 100; ++j) bad[i] += k_get(0, &kernel) != 0; });\n"
            "  for (auto &thread : threads) thread.join();\n  int sum = 0;\n"
            "  for (int each : bad) sum += each;\n"
            "  return sum == 0 && fake_loads() == 1 ? 0 : 1;\n}\n"
        )
        words = [
            "g++",
            "-std=c++17",
            "-pthread",
            *self.STRICT,
            "-DTILEIRAS_NO_CUDA_H",
            tmp_path / "user.cpp",
            "-x",
            "c++",
        ]
        words += [
            tmp_path / "k_tile.c",
            "-x",
            "none",
            tmp_path / "libcuda.so.1",
            f"-Wl,-rpath,{tmp_path}",
            "-ldl",
        ]
        subprocess.run([*words, "-o", tmp_path / "program"], check=True)
        assert subprocess.run([tmp_path / "program"]).returncode == 0

    def test_typed_launcher(self, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path, "--namespace", "my::kernels")
        (tmp_path / "user.cpp").write_text(
            '#include "k_tile.h"\n#include <type_traits>\n'
            "using F = CUresult(tileirasGrid, CUstream, float *, std::int32_t, std::int32_t, std::int32_t,"
            " std::int32_t, float *, std::int32_t, std::int32_t, std::int32_t,"
            " std::int32_t, float *, std::int32_t,"
            " std::int32_t, std::int32_t, std::int32_t);\n"
            'static_assert(std::is_same<decltype(my::kernels::launch_add_2d_f32), F>::value, "signature");\n'
        )
        words = ["g++", "-std=c++17", *self.STRICT, "-DTILEIRAS_NO_CUDA_H", "-c", tmp_path / "user.cpp"]
        subprocess.run([*words, "-o", tmp_path / "user.o"], check=True)

    def test_unchanged_content_keeps_the_time_stamp(self, images: Path, tmp_path: Path) -> None:
        generate(images, tmp_path)
        for name in ("k_tile.h", "k_tile.c"):
            os.utime(tmp_path / name, (1_000_000, 1_000_000))
        generate(images, tmp_path)
        assert {(tmp_path / name).stat().st_mtime for name in ("k_tile.h", "k_tile.c")} == {1_000_000}
        generate(images, tmp_path, "--namespace", "other")
        assert (tmp_path / "k_tile.h").stat().st_mtime != 1_000_000
        assert (tmp_path / "k_tile.c").stat().st_mtime == 1_000_000

    def test_two_prefixes_in_one_program(self, images: Path, tmp_path: Path) -> None:
        sources = []
        for prefix in ("one", "two"):
            outputs = ["--header-out", tmp_path / f"{prefix}.h", "--source-out", tmp_path / f"{prefix}.c"]
            tables = ["--json", images / "sm_90.json"]
            done = call("header", "--prefix", prefix, "--image", images / "sm_90.cubin", *tables, *outputs)
            assert done.returncode == 0, done.stderr
            sources.append(tmp_path / f"{prefix}.c")
        (tmp_path / "user.c").write_text('#include "one.h"\n#include "two.h"\nint main(void) { return 0; }\n')
        words = [
            "gcc",
            "-std=c99",
            *self.STRICT,
            "-DTILEIRAS_NO_CUDA_H",
            tmp_path / "user.c",
            *sources,
            "-ldl",
        ]
        subprocess.run([*words, "-o", tmp_path / "program"], check=True)

    def test_image_without_kernels(self, images: Path, tmp_path: Path) -> None:
        table = json.loads((images / "sm_90.json").read_text())
        table["kernels"] = []
        (tmp_path / "empty.json").write_text(json.dumps(table))
        outputs = ["--header-out", tmp_path / "e.h", "--source-out", tmp_path / "e.c"]
        done = call(
            "header",
            "--prefix",
            "e",
            "--image",
            images / "k.fatbin",
            "--json",
            tmp_path / "empty.json",
            *outputs,
        )
        assert done.returncode == 0, done.stderr
        for compiler, standard in self.LANGUAGES:
            kind = "c" if compiler == "gcc" else "c++"
            words = [
                compiler,
                "-x",
                kind,
                standard,
                *self.STRICT,
                "-DTILEIRAS_NO_CUDA_H",
                "-c",
                tmp_path / "e.c",
            ]
            subprocess.run([*words, "-o", tmp_path / "e.o"], check=True)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda t: t["kernels"][0]["params"].pop(), "other parameters"),
            (lambda t: t.update(launch_abi="simt"), "launch ABIs"),
            (lambda t: t.update(arch="sm_90"), "two tables describe"),
            (lambda t: t.update(version=9), "unknown version"),
        ],
    )
    def test_tables_that_disagree(self, images: Path, tmp_path: Path, change: object, words: str) -> None:
        table = json.loads((images / "sm_100.json").read_text())
        assert callable(change)
        change(table)
        (tmp_path / "t.json").write_text(json.dumps(table))
        outputs = ["--header-out", tmp_path / "e.h", "--source-out", tmp_path / "e.c"]
        tables = ["--json", images / "sm_90.json", "--json", tmp_path / "t.json"]
        done = call("header", "--prefix", "e", "--image", images / "k.fatbin", *tables, *outputs)
        assert done.returncode == 1
        assert words in done.stderr
        assert list(tmp_path.iterdir()) == [tmp_path / "t.json"]

    def test_an_arch_dependent_launch(self, images: Path, tmp_path: Path) -> None:
        """Block and dynamic shared memory may differ by architecture; the loader asks the device."""
        for arch, block, dynamic in (("sm_90", [128, 1, 1], 100_000), ("sm_100", [256, 1, 1], 0)):
            table = json.loads((images / f"{arch}.json").read_text())
            table["launch_abi"] = "simt"
            table["kernels"][0].update(block=block, dynamic_shared=dynamic)
            table["image_arch"] = arch
            (tmp_path / f"{arch}.json").write_text(json.dumps(table))
        shutil.copy(images / "k.fatbin", tmp_path / "k.fatbin")
        generate(tmp_path, tmp_path)
        (tmp_path / "driver.c").write_text(FAKE_DRIVER)
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"], check=True
        )
        (tmp_path / "user.c").write_text(
            '#include "k_tile.h"\nextern void fake_device(int, int);\nint main(void) {\n'
            "  int n = 1, i; void *args[15]; tileirasGrid grid = {1, 1, 1};\n"
            "  for (i = 0; i < 15; ++i) args[i] = &n;\n"
            "  for (i = 0; i < 2; ++i) k_launch(0, grid, 0, args);\n"
            "  fake_device(10, 3);\n  return (int)k_launch(0, grid, 0, args);\n}\n"
        )
        words = [
            "gcc",
            "-std=c99",
            *self.STRICT,
            "-DTILEIRAS_NO_CUDA_H",
            tmp_path / "user.c",
            tmp_path / "k_tile.c",
        ]
        words += [tmp_path / "libcuda.so.1", f"-Wl,-rpath,{tmp_path}", "-ldl", "-o", tmp_path / "program"]
        subprocess.run(words, check=True)
        said = subprocess.run(
            [tmp_path / "program"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert said == [
            "attribute 8=100000 kernel 0x1234 device 0",
            "launch 0x1234 grid 1 1 1 block 128 1 1 shared 100000 first 1",
            "launch 0x1234 grid 1 1 1 block 128 1 1 shared 100000 first 1",
            "launch 0x1234 grid 1 1 1 block 256 1 1 shared 0 first 1",
        ]

    @pytest.mark.parametrize(
        ("image_arch", "device", "expected"),
        [
            ("sm_100a", (10, 0), "block 128 1 1"),
            (
                "sm_100a",
                (10, 3),
                "block 64 1 1",
            ),  # runs on sm_100 only: the driver compiles the portable entry
            ("sm_100", (10, 3), "block 128 1 1"),
            ("sm_100", (12, 0), "block 64 1 1"),
            ("sm_100", (8, 9), "209"),
        ],
    )
    def test_which_image_a_device_runs(
        self, images: Path, tmp_path: Path, image_arch: str, device: tuple[int, int], expected: str
    ) -> None:
        rows = (("sm_100", image_arch, [128, 1, 1]), ("compute_90", None, [64, 1, 1]))
        tables: list[object] = []
        for arch, image, block in rows:
            table = json.loads((images / "sm_100.json").read_text())
            table.update(arch=arch, image_arch=image, launch_abi="simt")
            table["kernels"][0].update(block=block)
            (tmp_path / f"{arch}.json").write_text(json.dumps(table))
            tables += ["--json", tmp_path / f"{arch}.json"]
        outputs = ["--header-out", tmp_path / "k_tile.h", "--source-out", tmp_path / "k_tile.c"]
        done = call("header", "--prefix", "k", "--image", images / "k.fatbin", *tables, *outputs)
        assert done.returncode == 0, done.stderr
        (tmp_path / "driver.c").write_text(FAKE_DRIVER)
        library = tmp_path / "libcuda.so.1"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, tmp_path / "driver.c"], check=True)
        (tmp_path / "user.c").write_text(
            '#include "k_tile.h"\n#include <stdio.h>\nextern void fake_device(int, int);\nint main(void) {\n'
            "  int n = 1, i; void *args[15]; tileirasGrid grid = {1, 1, 1};\n"
            "  for (i = 0; i < 15; ++i) args[i] = &n;\n"
            f"  fake_device({device[0]}, {device[1]});\n"
            '  printf("%d\\n", (int)k_launch(0, grid, 0, args));\n  return 0;\n}\n'
        )
        words = ["gcc", "-std=c99", *self.STRICT, "-DTILEIRAS_NO_CUDA_H", tmp_path / "user.c"]
        words += [
            tmp_path / "k_tile.c",
            library,
            f"-Wl,-rpath,{tmp_path}",
            "-ldl",
            "-o",
            tmp_path / "program",
        ]
        subprocess.run(words, check=True)
        said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
        assert expected in said


class TestObject:
    @pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
    def test_object_file(self, tmp_path: Path, arch: str) -> None:
        image = tmp_path / "image"
        image.write_bytes(bytes(range(256)) * 3 + b"x")
        out = tmp_path / "i.o"
        assert (
            call("object", "--prefix", "p", "--image", image, "-o", out, "--host-arch", arch).returncode == 0
        )
        data = out.read_bytes()
        assert int.from_bytes(data[18:20], "little") == {"x86_64": 62, "aarch64": 183}[arch]
        assert data[64 : 64 + 769] == image.read_bytes()

    def test_other_machines_are_refused(self, tmp_path: Path) -> None:
        done = call(
            "object", "--prefix", "p", "--image", KERNEL, "-o", tmp_path / "i.o", "--host-arch", "ppc64le"
        )
        assert done.returncode == 2
        assert "embed array" in done.stderr
