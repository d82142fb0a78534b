/* Error messages: fills a p3l_error from a code, a format and an errno value. */
#include "p3l_status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

p3l_code p3l_fail(p3l_error *error, p3l_code code, const char *format, ...) {
  if (error != NULL) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    error->code = code;
  }
  return code;
}

static p3l_code code_of_errno(int errno_value) {
  switch (errno_value) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return P3L_NO_SPACE;
    case ENOMEM: return P3L_NO_MEMORY;
    case EROFS: return P3L_READ_ONLY;
    default: return P3L_IO;
  }
}

p3l_code p3l_fail_errno(p3l_error *error, int errno_value, const char *format, ...) {
  p3l_code code = code_of_errno(errno_value);
  if (error != NULL) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof(error->message))
      snprintf(error->message + length, sizeof(error->message) - (size_t)length, ": %s",
               strerror(errno_value));
    error->code = code;
  }
  return code;
}

const char *p3l_code_name(p3l_code code) {
  switch (code) {
    case P3L_OK: return "ok";
    case P3L_IO: return "input/output";
    case P3L_NO_SPACE: return "no space";
    case P3L_NO_MEMORY: return "no memory";
    case P3L_NOT_A_STORE: return "not a store";
    case P3L_WRONG_VERSION: return "wrong version";
    case P3L_WRONG_MACHINE: return "wrong machine";
    case P3L_BUSY: return "busy";
    case P3L_READ_ONLY: return "read-only";
    case P3L_CORRUPT: return "corrupt";
    case P3L_BROKEN: return "broken";
    case P3L_WRONG_TYPE: return "wrong type";
    case P3L_DANGLING: return "dangling";
    case P3L_MISUSE: return "misuse";
  }
  return "unknown";
}
