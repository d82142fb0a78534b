# How persist/ and place/ are compiled: optimised with debug information by default, warnings are errors, sanitizers
# by choice, hardened.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
add_compile_options(-Wall -Wextra -Werror)
# For the tests under sanitizers: -DSANITIZE=address,undefined or thread.
set(SANITIZE "" CACHE STRING "sanitizers, as -fsanitize takes them")
if(SANITIZE)
  add_compile_options(-fsanitize=${SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SANITIZE})
endif()
include(${CMAKE_CURRENT_LIST_DIR}/hardening.cmake)
