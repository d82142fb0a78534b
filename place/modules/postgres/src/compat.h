/* The differences between PostgreSQL 15, 16, 17 and 18: no other file uses PG_VERSION_NUM. */
#ifndef SPLIT_POSTGRES_COMPAT_H
#define SPLIT_POSTGRES_COMPAT_H

#include "postgres.h"

#include "executor/executor.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "split is made for PostgreSQL 15 to 18"
#endif

/* Up to 17 the caller declares that it runs a plan only once. */
#if PG_VERSION_NUM >= 180000
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS query, direction, count
#else
#define RUN_PARAMETERS QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define RUN_ARGUMENTS query, direction, count, execute_once
#endif

#endif
