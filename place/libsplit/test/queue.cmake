# Tests of the class queues: with decisions that the test makes itself (fake_decided.c), not with a segment.
file(GLOB queue_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/../src/queue*.c)
add_library(queue_alone STATIC ${queue_sources} ${CMAKE_CURRENT_LIST_DIR}/fake_decided.c)
target_include_directories(queue_alone PUBLIC ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/../src
                                              ${CMAKE_CURRENT_LIST_DIR}/../include)
find_package(Threads REQUIRED)
find_library(CMOCKA cmocka REQUIRED)
foreach(name test_queue test_queue_plan test_queue_choice)
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  target_link_libraries(${name} PRIVATE queue_alone ${CMOCKA} Threads::Threads)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
