/*
 * Settings: what users may choose. docs/plan.md explains them.
 */
#ifndef CCOPT_SETTINGS_H
#define CCOPT_SETTINGS_H

#include "compat.h"

typedef enum BufferSetting {
  BUFFER_OFF,   /* no buffers */
  BUFFER_AUTO,  /* prefetching and key-sorting buffers where their rules say so */
  BUFFER_PAPER, /* the rule of CC-Optimizer 2008, and nothing else */
  BUFFER_FORCE  /* below every operator where it is legal: for tests and experiments */
} BufferSetting;

typedef enum ShapesSetting {
  SHAPES_OFF,      /* no shape is remembered or pinned */
  SHAPES_SUSPECTS, /* tries core's plan where ccopt's takes longer than predicted for core's */
  SHAPES_EVERY     /* and everywhere else, for a small share of the time */
} ShapesSetting;

typedef enum BufferMode {
  BUFFER_RING, /* the child's rows stay in their pages, one pin a page */
  BUFFER_COPY  /* rows are copied */
} BufferMode;

extern bool ccopt_enabled;              /* ccopt.enabled */
extern bool ccopt_enable_batch_scan;    /* ccopt.enable_batch_scan, as core's enable_seqscan */
extern bool ccopt_enable_batch_agg;     /* ccopt.enable_batch_agg */
extern bool ccopt_enable_batch_join;    /* ccopt.enable_batch_join */
extern bool ccopt_enable_batch_window;  /* ccopt.enable_batch_window */
extern bool ccopt_enable_adaptive_join; /* ccopt.enable_adaptive_join */
extern bool ccopt_enable_bloom;         /* ccopt.enable_bloom */
extern bool ccopt_enable_top_n;         /* ccopt.enable_top_n */
extern int ccopt_buffer;                /* ccopt.buffer, a BufferSetting */
extern int ccopt_buffer_mode;           /* ccopt.buffer_mode, a BufferMode */
extern int ccopt_buffer_rows;           /* ccopt.buffer_rows: 0 = set by the rule */
extern bool ccopt_force;    /* ccopt.force: batch paths cost nothing: taken where legal */
extern char *ccopt_require; /* ccopt.require: names of nodes that a plan must have, or an error */

extern int ccopt_shapes; /* ccopt.shapes, a ShapesSetting */

extern int ccopt_cache_mb;      /* ccopt.cache_mb: limit of the column cache; 0: off */
extern bool ccopt_enable_cache; /* ccopt.enable_cache */

/* Registers the settings with the server, at loading. */
extern void settings_define(void);

#endif
