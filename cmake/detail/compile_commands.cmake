# compile_commands.json for Tile kernels. CMake leaves custom commands out of its own file, so with
# CMAKE_EXPORT_COMPILE_COMMANDS theirs are written to tile_compile_commands.json beside it, and the target
# tile_compile_commands adds them to the one that editors read.
include_guard(GLOBAL)

# Remembers one command: the words of `launch.py build compile SOURCE -o OUTPUT --arch ARCH`.
function(_tileiras_note_command output)
  set(words "")
  set(source "")
  set(previous "")
  foreach(word IN LISTS ARGN)
    if(previous STREQUAL "compile")
      set(source "${word}")
    endif()
    set(previous "${word}")
    _tileiras_json_string(word "${word}")
    list(APPEND words "${word}")
  endforeach()
  string(REPLACE ";" ", " words "${words}")
  foreach(variable IN ITEMS source output)
    _tileiras_json_string(${variable} "${${variable}}")
  endforeach()
  _tileiras_json_string(directory "${CMAKE_CURRENT_BINARY_DIR}")
  get_property(first GLOBAL PROPERTY TILEIRAS_COMMANDS)
  if(NOT "${first}" STREQUAL "")
    set_property(GLOBAL APPEND_STRING PROPERTY TILEIRAS_COMMANDS ",\n")
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY TILEIRAS_COMMANDS
    "{\"directory\": ${directory}, \"file\": ${source}, \"output\": ${output},\n \"arguments\": [${words}]}")
  get_property(scheduled GLOBAL PROPERTY TILEIRAS_COMMANDS_SCHEDULED)
  if(NOT scheduled)
    set_property(GLOBAL PROPERTY TILEIRAS_COMMANDS_SCHEDULED TRUE)
    cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL _tileiras_write_compile_commands)
  endif()
endfunction()

function(_tileiras_json_string out text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  set(${out} "\"${text}\"" PARENT_SCOPE)
endfunction()

function(_tileiras_write_compile_commands)
  get_property(commands GLOBAL PROPERTY TILEIRAS_COMMANDS)
  get_property(cmake_dir GLOBAL PROPERTY TILEIRAS_CMAKE_DIR)
  get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  set(file "${CMAKE_BINARY_DIR}/tile_compile_commands.json")
  set(condition "")
  if(is_multi_config)  # one file for all configurations: the first speaks for them, as editors want one entry a file
    list(GET CMAKE_CONFIGURATION_TYPES 0 config)
    set(condition CONDITION "$<CONFIG:${config}>")
  endif()
  file(GENERATE OUTPUT "${file}" CONTENT "[\n${commands}\n]\n" ${condition})
  if(NOT TARGET tile_compile_commands)
    add_custom_target(tile_compile_commands
      COMMAND "${Tileiras_PYTHON_EXECUTABLE}" -I -S "${cmake_dir}/detail/merge_compile_commands.py"
        "${CMAKE_BINARY_DIR}/compile_commands.json" "${file}"
      COMMENT "Adding Tile kernels to compile_commands.json" VERBATIM)
  endif()
endfunction()
