#[=======================================================================[.rst:
add_tile_test
-------------
::

  add_tile_test(NAME <test> KERNEL <file|target> ENTRY <kernel> DATA <file.npz> GRID <x> [<y> [<z>]]
    [ARCH <arch>] [TARGET emulator|reference|cpu|gpu] [RTOL <r>] [ATOL <a>])

Adds a ctest that launches one kernel on data and compares the result; no GPU is needed. DATA holds ``arg0``, ``arg1``, ...:
the arguments in order, arrays and scalars, and ``expected<i>``: what argument i must hold afterwards. The default target,
``emulator``, executes PTX; ``reference`` interprets the Tile IR; ``cpu`` runs native code on all cores (llvmlite); ``gpu`` launches the image, and the test counts as skipped on
a machine without a GPU.

KERNEL <file>    the file is compiled for ARCH (default 90) when the test runs, with default options.
KERNEL <target>  a target of ``add_tile_kernel``: what was built is tested, with its options, launch ABI and compiler: the image
                 for ARCH (default the target's first), or the PTX that it was assembled from. Made in the directory of the
                 target, before its end; from other directories the target needs FORMATS ptx for the emulator.

The interpreter of ``Tileiras_PYTHON_EXECUTABLE`` needs NumPy: ``pip install tileiras[run]``.
#]=======================================================================]
function(add_tile_test)
  set(single NAME KERNEL ENTRY DATA ARCH TARGET RTOL ATOL)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "${single}" "GRID")
  _tileiras_check_keywords("add_tile_test(${test_NAME})" test "${single};GRID" "GRID" "")
  foreach(argument IN ITEMS NAME KERNEL ENTRY DATA GRID)
    if("${test_${argument}}" STREQUAL "")
      message(FATAL_ERROR "add_tile_test(${test_NAME}): needs ${argument}")
    endif()
  endforeach()
  get_filename_component(test_DATA "${test_DATA}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT "${test_GRID}" MATCHES "^[0-9]+(;[0-9]+)?(;[0-9]+)?$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): GRID '${test_GRID}' is not one to three numbers")
  endif()
  string(REPLACE ";" "," grid "${test_GRID}")
  string(REGEX REPLACE "^sm_" "" arch "${test_ARCH}")
  if(arch AND NOT arch MATCHES "^[0-9]+[af]?$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): ARCH '${test_ARCH}' is no GPU (examples: 90, sm_120)")
  endif()
  if(NOT test_TARGET)
    set(test_TARGET emulator)
  elseif(NOT test_TARGET MATCHES "^(emulator|reference|cpu|gpu)$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): TARGET '${test_TARGET}' is none of emulator, reference, cpu, gpu")
  endif()
  set(words --entry "${test_ENTRY}" --data "${test_DATA}" --grid "${grid}" --target "${test_TARGET}" --skip-without-gpu)
  foreach(argument IN ITEMS RTOL ATOL)
    if(NOT "${test_${argument}}" STREQUAL "")
      string(TOLOWER "${argument}" flag)
      list(APPEND words --${flag} "${test_${argument}}")
    endif()
  endforeach()
  if(NOT TARGET "${test_KERNEL}")
    if(NOT arch)
      set(arch 90)
    endif()
    if(NOT test_KERNEL MATCHES "\\$<")
      get_filename_component(test_KERNEL "${test_KERNEL}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
    _tileiras_add_test("${test_NAME}" "${test_KERNEL}" ${words} --arch "sm_${arch}")
    return()
  endif()

  get_target_property(images "${test_KERNEL}" TILE_IMAGES_TARGET)
  if(NOT images)
    message(FATAL_ERROR "add_tile_test(${test_NAME}): KERNEL '${test_KERNEL}' is a target, but none of add_tile_kernel")
  endif()
  if(test_TARGET STREQUAL "emulator")
    set_property(TARGET "${test_KERNEL}" PROPERTY TILE_TESTED TRUE)
  endif()
  # When the target has its commands: its architectures may still change.
  cmake_language(EVAL CODE
    "cmake_language(DEFER CALL _tileiras_test_of_target [==[${test_NAME}]==] [==[${test_KERNEL}]==] [==[${arch}]==] [==[${words}]==])")
endfunction()

# The test of what a target built. `words` is a list.
function(_tileiras_test_of_target name kernels arch words)
  get_target_property(aliased "${kernels}" ALIASED_TARGET)
  if(aliased)
    set(kernels "${aliased}")
  endif()
  if(NOT arch)
    get_target_property(wanted "${kernels}" TILE_ARCHITECTURES)
    _tileiras_split_architectures(real virtual ${wanted})
    if(NOT real)
      message(FATAL_ERROR "add_tile_test(${name}): '${kernels}' has no real architecture, and so no image")
    endif()
    list(GET real 0 arch)
  endif()
  foreach(property IN ITEMS SOURCES CUBIN_${arch} PTX)
    get_target_property(paths "${kernels}" TILE_${property})
    if(NOT paths)
      set(paths "")
    endif()
    set(${property} "${paths}")
  endforeach()
  if(NOT CUBIN_${arch})
    message(FATAL_ERROR "add_tile_test(${name}): '${kernels}' has no image for sm_${arch}; see its ARCHITECTURES")
  endif()
  list(FILTER PTX INCLUDE REGEX "\\.sm_${arch}\\.ptx$")
  if("emulator" IN_LIST words AND NOT PTX)
    message(FATAL_ERROR "add_tile_test(${name}): '${kernels}' keeps no PTX to emulate; give it FORMATS ptx (COMPILER nvidia has none: TARGET gpu)")
  endif()
  # Which of the target's sources has the kernel is for the test to find out: their tables say.
  foreach(source cubin IN ZIP_LISTS SOURCES CUBIN_${arch})
    string(REGEX REPLACE "\\.cubin$" ".kernels.json" table "${cubin}")
    list(APPEND words --built "${table}" "${source}")
  endforeach()
  list(GET SOURCES 0 first)
  _tileiras_add_test("${name}" "${first}" ${words} --arch "sm_${arch}")
endfunction()

function(_tileiras_add_test name kernel)
  get_property(launcher GLOBAL PROPERTY TILEIRAS_SITE_LAUNCHER)
  add_test(NAME "${name}" COMMAND ${launcher} kernel_test "${kernel}" ${ARGN})
  set_tests_properties("${name}" PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
