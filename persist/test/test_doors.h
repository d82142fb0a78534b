/* The ring of parts that test_doors_c makes and test_doors changes. */
#ifndef P3L_TEST_DOORS_H
#define P3L_TEST_DOORS_H

#include <stdint.h>

enum { PARTS = 3000, SPARE = 77777 };
/* Part i leads to i + STEPS[k]; the first step makes the ring. */
static const uint32_t STEPS[3] = {1, 10, 1499};

#endif
