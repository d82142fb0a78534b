/*
 * The differences between PostgreSQL 15, 16, 17 and 18, in one place: no other file asks for
 * PG_VERSION_NUM.
 */
#ifndef CCOPT_COMPAT_H
#define CCOPT_COMPAT_H

#include "postgres.h"

#include "access/heapam.h"
#include "commands/explain.h"
#include "nodes/extensible.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "ccopt is made for PostgreSQL 15 to 18"
#endif

#endif
