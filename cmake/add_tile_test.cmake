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
  set(grid ${test_GRID} 1 1)
  list(SUBLIST grid 0 3 grid)
  string(REPLACE ";" "," grid "${grid}")
  string(REGEX REPLACE "^sm_" "" arch "${test_ARCH}")
  if(NOT arch)
    set(arch 90)
  endif()
  if(NOT test_TARGET)
    set(test_TARGET emulator)
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
