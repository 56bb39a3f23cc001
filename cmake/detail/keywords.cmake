# Arguments that a command does not have: named with the nearest that it has, never taken for a value.
include_guard(GLOBAL)

# After cmake_parse_arguments: <where> begins the message, <prefix> is that of the parsed variables, <keywords> are all that
# the command has, <strict> the lists whose values are never words in capitals, <loose> those where they may be (a kernel
# named GEMM). Errors: configuring stops.
function(_tileiras_check_keywords where prefix keywords strict loose)
  foreach(keyword IN LISTS strict loose)
    foreach(value IN LISTS ${prefix}_${keyword})
      string(TOUPPER "${value}" capitals)
      # FORMATS header and the like are values; no source has a name like that
      if(value MATCHES "^[A-Z][A-Z_]+$" OR (keyword STREQUAL "SOURCES" AND capitals IN_LIST keywords))
        set(likeness 0.75)
        if(keyword IN_LIST strict)
          set(likeness 0.6)
        endif()
        _tileiras_nearest(near "${value}" ${likeness} ${keywords})
        if(near OR keyword IN_LIST strict)
          message(FATAL_ERROR "${where}: ${keyword} has '${value}', which is neither a value nor an argument${near}")
        endif()
      endif()
    endforeach()
  endforeach()
  if(DEFINED ${prefix}_UNPARSED_ARGUMENTS)
    list(GET ${prefix}_UNPARSED_ARGUMENTS 0 word)
    _tileiras_nearest(near "${word}" 0.6 ${keywords})
    message(FATAL_ERROR "${where}: unknown arguments: ${${prefix}_UNPARSED_ARGUMENTS}${near}")
  endif()
endfunction()

# "; did you mean X?" for the keyword that is <word> to that likeness (0 to 1), else nothing.
function(_tileiras_nearest out word likeness)
  execute_process(
    COMMAND "${Tileiras_PYTHON_EXECUTABLE}" -I -S -c
      "import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[3:], 1, float(sys.argv[2])), end='')"
      "${word}" ${likeness} ${ARGN}
    OUTPUT_VARIABLE found ERROR_QUIET)
  set(${out} "" PARENT_SCOPE)
  if(found AND NOT found STREQUAL word)
    set(${out} "; did you mean ${found}?" PARENT_SCOPE)
  endif()
endfunction()
