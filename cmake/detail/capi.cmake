# Tileiras::capi: libtileiras, the C client of the compiler, built from the package's sources in the project that links
# it. It needs C (or C++) and threads, so it is defined only where C is enabled, and built only when something links it.
include_guard(GLOBAL)

function(_tileiras_define_capi)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(TARGET Tileiras::capi OR NOT "C" IN_LIST languages)
    return()
  endif()
  get_property(cmake_dir GLOBAL PROPERTY TILEIRAS_CMAKE_DIR)
  get_filename_component(capi "${cmake_dir}/../capi" ABSOLUTE)  # a wheel: tileiras/cmake beside tileiras/capi
  if(NOT EXISTS "${capi}/tileiras.c")
    get_filename_component(capi "${cmake_dir}/../tileiras/capi" ABSOLUTE)
  endif()
  set(THREADS_PREFER_PTHREAD_FLAG TRUE)
  find_package(Threads REQUIRED)
  foreach(word IN ITEMS "${Tileiras_PYTHON_EXECUTABLE}" -I -S "${capi}/launch.py")
    string(REPLACE "\\" "\\\\" word "${word}")
    string(REPLACE "\"" "\\\"" word "${word}")
    list(APPEND words "\"${word}\"")
  endforeach()
  list(JOIN words ", " words)
  set(generated "${CMAKE_BINARY_DIR}/tileiras_capi")
  file(CONFIGURE OUTPUT "${generated}/tileiras_worker.h" CONTENT "#define TILEIRAS_WORKER @words@\n" @ONLY)
  add_library(tileiras_capi SHARED EXCLUDE_FROM_ALL "${capi}/tileiras.c" "${capi}/worker.c")
  add_library(Tileiras::capi ALIAS tileiras_capi)
  target_include_directories(tileiras_capi PUBLIC "${capi}/include" PRIVATE "${generated}")
  target_link_libraries(tileiras_capi PRIVATE Threads::Threads)
  set_target_properties(tileiras_capi PROPERTIES
    OUTPUT_NAME tileiras SOVERSION 0 C_STANDARD 99 C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tileiras_capi")
endfunction()
