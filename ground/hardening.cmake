# Hardening of installed C and C++ as distributions require it: stack protector, fortified calls, control-flow
# protection, full RELRO. Programs are position independent by the compiler's default; ground/check-hardened
# verifies all of it.
#
# Left out: the software PMU, which Valgrind loads as a static program at a fixed address and which has no C
# library to fortify; the programs of OO1 and OO7, whose instructions are measured; ccopt and SPLiT's module
# for PostgreSQL, which have PostgreSQL's own flags (pg_config); of libsplit, section.c has no stack
# protector.
if(NOT SANITIZE)
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
