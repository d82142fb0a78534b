/* Whole numbers in JSON. */
#ifndef OO1_JSON_H
#define OO1_JSON_H

#include <cJSON.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "die.h"

/* Adds a whole number of 64 bits, which a double cannot hold. */
static inline void oo1_json_whole(cJSON *object, const char *name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRIu64, value);
  cJSON_AddRawToObject(object, name, text);
}

/* Adds it as 16 hexadecimal digits. */
static inline void oo1_json_hex(cJSON *object, const char *name, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%016" PRIx64, value);
  cJSON_AddStringToObject(object, name, text);
}

/* Prints an object on one line, and frees it; ends the program if that fails. */
static inline void oo1_json_print(cJSON *object) {
  char *text = cJSON_PrintUnformatted(object);
  if (text == NULL || puts(text) < 0 || fflush(stdout) != 0)
    oo1_die_errno("the result cannot be written");
  free(text);
  cJSON_Delete(object);
}

#endif
