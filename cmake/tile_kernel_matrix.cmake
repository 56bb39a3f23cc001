#[=======================================================================[.rst:
tile_kernel_matrix
------------------
::

  tile_kernel_matrix(<name> MATRIX <file.json> TEMPLATE <file> [SIGNATURE <signature>] [<argument of add_tile_kernel>...])

One target of ``add_tile_kernel`` out of a product of shapes and types. MATRIX is a JSON file of one object, each member
a list of values (the product of all is built), or of a list of objects (exactly those are built); members count in
alphabetical order::

  {"dtype": ["f16", "f32"], "block": [128, 256]}

TEMPLATE ``gemm.tileir.in``: Tile IR text in which ``@dtype@`` and ``@block@`` stand for the values; each combination becomes
``gemm_128_f16.tileir``. TEMPLATE ``gemm.py``: a cuTile Python file; SIGNATURE then holds the placeholders, and ENTRIES names
the kernel.

Result: as ``add_tile_kernel``; property TILE_MATRIX of the target lists the stems. Editing the matrix or the template
configures again and rebuilds what changed. Errors: a value that is no scalar, a placeholder without a member.
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
  file(READ "${MATRIX}" json)
  string(JSON kind ERROR_VARIABLE problem TYPE "${json}")
  if(problem)
    message(FATAL_ERROR "tile_kernel_matrix(${name}): ${MATRIX}: ${problem}")
  endif()

  # rows: one "key=value|key=value" for each kernel
  set(rows "")
  if(kind STREQUAL "OBJECT")
    set(rows "_")
    string(JSON count LENGTH "${json}")
    math(EXPR last "${count} - 1")
    foreach(member RANGE ${last})
      string(JSON key MEMBER "${json}" ${member})
      _tileiras_json_list(values "${json}" ${key})
      set(longer "")
      foreach(row IN LISTS rows)
        foreach(value IN LISTS values)
          list(APPEND longer "${row}|${key}=${value}")
        endforeach()
      endforeach()
      set(rows "${longer}")
    endforeach()
  elseif(kind STREQUAL "ARRAY")
    string(JSON count LENGTH "${json}")
    math(EXPR last "${count} - 1")
    foreach(element RANGE ${last})
      set(row "_")
      string(JSON members LENGTH "${json}" ${element})
      math(EXPR last_member "${members} - 1")
      foreach(member RANGE ${last_member})
        string(JSON key MEMBER "${json}" ${element} ${member})
        string(JSON value GET "${json}" ${element} ${key})
        string(APPEND row "|${key}=${value}")
      endforeach()
      list(APPEND rows "${row}")
    endforeach()
  endif()
  if(NOT rows)
    message(FATAL_ERROR "tile_kernel_matrix(${name}): ${MATRIX} describes no kernel")
  endif()

  get_filename_component(base "${TEMPLATE}" NAME)
  string(REGEX REPLACE "(\\.in)$" "" base "${base}")
  string(REGEX REPLACE "\\.[^.]*$" "" stem "${base}")
  string(REGEX MATCH "\\.[^.]*$" suffix "${base}")
  set(sources "")
  set(stems "")
  foreach(row IN LISTS rows)
    set(unit "${stem}")
    string(REPLACE "|" ";" pairs "${row}")
    list(REMOVE_AT pairs 0)
    if(suffix STREQUAL ".py")
      set(text "${matrix_SIGNATURE}")
    else()
      file(READ "${TEMPLATE}" text)
    endif()
    foreach(pair IN LISTS pairs)
      string(REGEX MATCH "^([^=]+)=(.*)$" matched "${pair}")
      set(key "${CMAKE_MATCH_1}")
      set(value "${CMAKE_MATCH_2}")
      if(value MATCHES "[][{}|;]")
        message(FATAL_ERROR "tile_kernel_matrix(${name}): '${key}' has the value '${value}', which is no scalar")
      endif()
      string(REPLACE "@${key}@" "${value}" text "${text}")
      string(MAKE_C_IDENTIFIER "x${value}" word)
      string(SUBSTRING "${word}" 1 -1 word)
      string(APPEND unit "_${word}")
    endforeach()
    if(text MATCHES "@([A-Za-z_][A-Za-z0-9_]*)@")
      message(FATAL_ERROR "tile_kernel_matrix(${name}): ${TEMPLATE}: '@${CMAKE_MATCH_1}@' is no member of ${MATRIX}")
    endif()
    list(APPEND stems "${unit}")
    if(suffix STREQUAL ".py")
      list(APPEND signatures "${text}")
    else()
      set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.matrix/${unit}${suffix}")
      # Written only when it differs: an edit of one row rebuilds one kernel.
      file(CONFIGURE OUTPUT "${source}" CONTENT "${text}" @ONLY)
      list(APPEND sources "${source}")
    endif()
  endforeach()

  if(suffix STREQUAL ".py")
    add_tile_kernel(${name} SOURCES "${TEMPLATE}" SIGNATURE ${signatures} ${matrix_UNPARSED_ARGUMENTS})
  else()
    add_tile_kernel(${name} SOURCES ${sources} ${matrix_UNPARSED_ARGUMENTS})
  endif()
  set_target_properties(${name} PROPERTIES TILE_MATRIX "${stems}")
endfunction()
