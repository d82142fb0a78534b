# The probe's other half: finding sets (the analyzer's side, compiled into it by its build.rs as well), and tests of both.
# Optimised always: the loops that time loads must not time themselves.
file(GLOB discover CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/src/probe_discover*.c)
add_library(split_probe STATIC
  ${discover} ${CMAKE_CURRENT_LIST_DIR}/src/probe.c ${CMAKE_CURRENT_LIST_DIR}/src/probe_clock.c)
target_compile_options(split_probe PRIVATE -O2)
target_include_directories(split_probe PUBLIC ${CMAKE_CURRENT_LIST_DIR}/src)
target_link_libraries(split_probe PUBLIC split_kernels Threads::Threads) # kernels: of sections/, which depends on nothing

find_library(CMOCKA cmocka)
if(CMOCKA)
  file(GLOB probe_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test/probe_*.c)
  foreach(source ${probe_tests})
    cmake_path(GET source STEM name)
    add_executable(${name} ${source})
    target_link_libraries(${name} PRIVATE split_probe ${CMOCKA})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
  endforeach()
endif()
