#[=======================================================================[.rst:
add_tile_test
-------------
::

  add_tile_test(NAME <test> KERNEL <file> ENTRY <kernel> DATA <file.npz> GRID <x> [<y> [<z>]]
    [ARCH <arch>] [TARGET emulator|reference|gpu] [RTOL <r>] [ATOL <a>])

Adds a ctest that launches one kernel on data and compares the result; no GPU is needed. DATA holds ``arg0``, ``arg1``, ...:
the arguments in order, arrays and scalars, and ``expected<i>``: what argument i must hold afterwards. The default target,
``emulator``, compiles the kernel for ARCH (default 90) and executes the PTX; ``reference`` interprets the Tile IR.

The interpreter of ``Tileiras_PYTHON_EXECUTABLE`` needs NumPy: ``pip install tileiras[run]``.
#]=======================================================================]
function(add_tile_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;KERNEL;ENTRY;DATA;ARCH;TARGET;RTOL;ATOL" "GRID")
  foreach(argument IN ITEMS NAME KERNEL ENTRY DATA GRID)
    if("${test_${argument}}" STREQUAL "")
      message(FATAL_ERROR "add_tile_test(${test_NAME}): needs ${argument}")
    endif()
  endforeach()
  if(DEFINED test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "add_tile_test(${test_NAME}): unknown arguments: ${test_UNPARSED_ARGUMENTS}")
  endif()
  foreach(argument IN ITEMS KERNEL DATA)
    if(NOT test_${argument} MATCHES "\\$<")
      get_filename_component(test_${argument} "${test_${argument}}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
  endforeach()
  if(NOT "${test_GRID}" MATCHES "^[0-9]+(;[0-9]+)?(;[0-9]+)?$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): GRID '${test_GRID}' is not one to three numbers")
  endif()
  string(REPLACE ";" "," grid "${test_GRID}")
  string(REGEX REPLACE "^sm_" "" arch "${test_ARCH}")
  if(NOT arch)
    set(arch 90)
  endif()
  if(NOT arch MATCHES "^[0-9]+[af]?$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): ARCH '${test_ARCH}' is no GPU (examples: 90, sm_120)")
  endif()
  if(NOT test_TARGET)
    set(test_TARGET emulator)
  elseif(NOT test_TARGET MATCHES "^(emulator|reference|gpu)$")
    message(FATAL_ERROR "add_tile_test(${test_NAME}): TARGET '${test_TARGET}' is none of emulator, reference, gpu")
  endif()
  set(more "")
  foreach(argument IN ITEMS RTOL ATOL)
    if(NOT "${test_${argument}}" STREQUAL "")
      string(TOLOWER "${argument}" flag)
      list(APPEND more --${flag} "${test_${argument}}")
    endif()
  endforeach()
  get_property(launcher GLOBAL PROPERTY TILEIRAS_SITE_LAUNCHER)
  add_test(NAME "${test_NAME}"
    COMMAND ${launcher} kernel_test "${test_KERNEL}" --entry "${test_ENTRY}" --data "${test_DATA}" --grid "${grid}"
      --arch "sm_${arch}" --target "${test_TARGET}" ${more})
endfunction()
