#[=======================================================================[.rst:
tile_kernel_matrix
------------------
::

  tile_kernel_matrix(<name> MATRIX <file.json> TEMPLATE <file> [SIGNATURE <signature>] [<argument of add_tile_kernel>...])

One target of ``add_tile_kernel`` out of a product of shapes and types. MATRIX is a JSON file, in the format that
``tileiras-build export --matrix`` reads as well: an object, each member a list of values (the product of all is built), a list of
objects (exactly those are built), or ``{"values": ..., "exclude": [...], "signature": "...", "symbol": "..."}``. Members count in
alphabetical order, numbers keep their spelling::

  {"dtype": ["f16", "f32"], "block": [128, 256]}

TEMPLATE ``gemm.tileir.in``: Tile IR text in which ``@dtype@`` and ``@block@`` stand for the values; each combination becomes
``gemm_128_f16.tileir``. TEMPLATE ``gemm.py``: a cuTile Python file; SIGNATURE (or that of the file) then holds the
placeholders, and ENTRIES names the kernel. Its kernels are named alike, ``gemm_128_f16``, or as "symbol" says.

Result: as ``add_tile_kernel``; property TILE_MATRIX of the target lists the stems. Editing the matrix or the template
configures again and rebuilds what changed. Errors: a value that is no scalar, a placeholder without
a member, two kernels of one name.
#]=======================================================================]
function(tile_kernel_matrix name)
  cmake_parse_arguments(PARSE_ARGV 1 matrix "" "MATRIX;TEMPLATE;SIGNATURE" "")
  foreach(argument IN ITEMS MATRIX TEMPLATE)
    if(NOT matrix_${argument})
      message(FATAL_ERROR "tile_kernel_matrix(${name}): needs ${argument}")
    endif()
    get_filename_component(${argument} "${matrix_${argument}}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
    if(NOT EXISTS "${${argument}}")
      message(FATAL_ERROR "tile_kernel_matrix(${name}): cannot find ${argument} '${matrix_${argument}}'")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${${argument}}")
  endforeach()
  get_filename_component(base "${TEMPLATE}" NAME)
  string(REGEX REPLACE "(\\.in)$" "" base "${base}")
  string(REGEX REPLACE "\\.[^.]*$" "" stem "${base}")
  string(REGEX MATCH "\\.[^.]*$" suffix "${base}")
  set(language text)
  if(suffix STREQUAL ".py")
    set(language python)
  endif()
  # Not by string(JSON): it turns 0.1 into 0.10000000000000001 and true into ON.
  get_property(launcher GLOBAL PROPERTY TILEIRAS_LAUNCHER)
  execute_process(
    COMMAND ${launcher} kernel_matrix "${MATRIX}" "${stem}" ${language} "${matrix_SIGNATURE}"
    OUTPUT_VARIABLE rows ERROR_VARIABLE problem RESULT_VARIABLE status ENCODING UTF-8)
  if(NOT status EQUAL 0)
    string(REGEX REPLACE "^error: " "" problem "${problem}")
    string(STRIP "${problem}" problem)
    message(FATAL_ERROR "tile_kernel_matrix(${name}): ${problem}")
  endif()
  string(REGEX REPLACE "\n$" "" rows "${rows}")
  string(ASCII 1 open)  # brackets would hold a list together
  string(ASCII 2 close)
  string(REPLACE "[" "${open}" rows "${rows}")
  string(REPLACE "]" "${close}" rows "${rows}")
  string(REPLACE "\n" ";" rows "${rows}")

  set(sources "")
  set(stems "")
  set(signatures "")
  foreach(row IN LISTS rows)
    string(REPLACE "|" ";" pairs "${row}")
    list(POP_FRONT pairs unit)
    list(APPEND stems "${unit}")
    if(suffix STREQUAL ".py")
      string(REPLACE "${open}" "[" pairs "${pairs}")
      string(REPLACE "${close}" "]" pairs "${pairs}")
      list(APPEND signatures "${pairs}")
      continue()
    endif()
    file(READ "${TEMPLATE}" text)
    foreach(pair IN LISTS pairs)
      string(REGEX MATCH "^([^=]+)=(.*)$" matched "${pair}")
      string(REPLACE "@${CMAKE_MATCH_1}@" "${CMAKE_MATCH_2}" text "${text}")
    endforeach()
    if(text MATCHES "@([A-Za-z_][A-Za-z0-9_]*)@")
      message(FATAL_ERROR "tile_kernel_matrix(${name}): ${TEMPLATE}: '@${CMAKE_MATCH_1}@' is no member of ${MATRIX}")
    endif()
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.matrix/${unit}${suffix}")
    # Written only when it differs: an edit of one row rebuilds one kernel.
    file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)
    list(APPEND sources "${source}")
  endforeach()

  if(suffix STREQUAL ".py")
    add_tile_kernel(${name} SOURCES "${TEMPLATE}" SIGNATURE ${signatures} SYMBOL ${stems} ${matrix_UNPARSED_ARGUMENTS})
  else()
    add_tile_kernel(${name} SOURCES ${sources} ${matrix_UNPARSED_ARGUMENTS})
  endif()
  set_target_properties(${name} PROPERTIES TILE_MATRIX "${stems}")
endfunction()
